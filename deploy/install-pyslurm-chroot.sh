#!/bin/sh
# Builds pyslurm, fitted to Slurm 24.11, in the folder that install-slurm-chroot.sh has made, for the tests:
#     install-pyslurm-chroot.sh 24.11
# The result is kept by what it was built from: a second run does nothing. Needs what install-slurm-chroot.sh needs, and
# the Python package index. The compilers and headers come from Debian's packages and stay inside the folder.
#
# pyslurm is licensed under GPL-2.0-only. The result is for this machine's tests and is not to be passed on.
#
# MAKEWAY_CHROOTS: where the folders are (default /var/cache/makeway-chroots)
# MAKEWAY_PYTHON: a Python with pip, outside of the folder (default python3)
set -eu

chroots=${MAKEWAY_CHROOTS:-/var/cache/makeway-chroots}
python=${MAKEWAY_PYTHON:-python3}
release=25.11.2
hash=6e0e4bc639ea3177591b102b77c1dd8df55a9e411ac42ef339a4adb3908cca34
flags="-O0 -g0 -w"
packages="libslurm-dev gcc libc6-dev python3-dev cython3 python3-setuptools python3-wheel python3-packaging"
version=${1:-}
here=$(cd "$(dirname "$0")" && pwd)/pyslurm

die() {
    echo "install-pyslurm-chroot: $1" >&2
    exit 2
}

[ "$version" = 24.11 ] || die "the version must be 24.11, not '$version'"
root=$chroots/$version
[ -d "$root" ] || die "there is no $root: run install-slurm-chroot.sh $version first"
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "run it as root, or as a user whose sudo asks for no password"
    exec sudo -n MAKEWAY_CHROOTS="$chroots" MAKEWAY_PYTHON="$python" "$0" "$@"
fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

all_there() {
    # shellcheck disable=SC2086  # the list has to be split
    chroot "$root" dpkg-query --show $packages >/dev/null 2>&1
}

key() {
    {
        echo "$release $hash $flags"
        cat "$here/fit.py" "$here/compat-24.11.h"
        chroot "$root" dpkg-query --show libslurm-dev python3-dev
    } | sha256sum | cut -c1-16
}

make_known() {
    # The Python of the chroot looks there.
    folder=$(chroot "$root" python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    mkdir -p "$root$folder"
    echo "$built" >"$root$folder/makeway-pyslurm.pth"
}

exec 9>"$chroots/.lock-pyslurm"
flock 9
if ! all_there; then
    chroot "$root" apt-get -q -o Acquire::Check-Valid-Until=false update || die "apt-get update failed, see above"
    # shellcheck disable=SC2086  # the list has to be split
    chroot "$root" apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 $packages ||
        die "apt-get install failed, see above"
    chroot "$root" apt-get clean
fi
built=/opt/makeway-pyslurm/$(key)
if [ -d "$root$built" ]; then
    make_known
    echo "install-pyslurm-chroot: pyslurm is in $root$built"
    exit 0
fi

mkdir -p "$root/opt/makeway-pyslurm"
partial=$(mktemp -d "$root/opt/makeway-pyslurm/.partial.XXXXXX")
trap 'rm -rf --one-file-system "$partial"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$partial"
echo "pyslurm==$release --hash=sha256:$hash" >"$partial/wanted.txt"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary pyslurm --require-hashes \
    --dest "$partial" --requirement "$partial/wanted.txt" || die "pyslurm $release cannot be downloaded, see above"
tar -xzf "$partial/pyslurm-$release.tar.gz" -C "$partial" --no-same-owner
cp "$here/compat-24.11.h" "$partial/compat.h"
"$python" "$here/fit.py" "$partial/pyslurm-$release" || die "pyslurm $release cannot be fitted, see above"
inner=${partial#"$root"}
chroot "$root" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PYSLURM_BUILD_JOBS=2 SLURM_INCLUDE_DIR=/usr/include \
    SLURM_LIB_DIR="/usr/lib/$(chroot "$root" gcc -dumpmachine)" CFLAGS="$flags -include $inner/compat.h" \
    sh -c "cd '$inner/pyslurm-$release' && python3 setup.py build_ext --inplace -j2" \
    >"$partial/log" 2>&1 || {
    tail -40 "$partial/log" >&2
    die "pyslurm $release does not compile, see above"
}
mkdir "$partial/done"
mv "$partial/pyslurm-$release/pyslurm" "$partial/done/pyslurm"
find "$partial/done" -name '*.c' -delete
chroot "$root" env -i PATH=/usr/bin:/bin PYTHONPATH="$inner/done" PYSLURM_DISABLE_AUTO_INIT=1 \
    python3 -c 'import pyslurm; print("install-pyslurm-chroot: built pyslurm", pyslurm.__version__)' ||
    die "built, but it cannot be imported"
mv "$partial/done" "$root$built"
make_known
