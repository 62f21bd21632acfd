#!/bin/sh
# Runs tests with the Python of a chroot that deploy/install-slurm-chroot.sh has made, which is newer than Debian 12's:
#     newer_python.sh ROOT [ARGUMENT OF PYTEST...]
# They run on a copy of the checked-in files in ROOT. Needs root, or sudo without a password.
set -eu

root=${1:?the folder of the chroot}
shift
if [ "$(id -u)" -ne 0 ]; then
    exec sudo -n --preserve-env=UV_DEFAULT_INDEX,SSL_CERT_FILE sh "$0" "$root" "$@"
fi
cd "$(dirname "$0")/.."
copy=/opt/makeway-tests

exec 9>"$root/../.lock-tests"
flock 9
find "$root$copy" -mindepth 1 -maxdepth 1 ! -name .venv -exec rm -rf {} + 2>/dev/null || mkdir -p "$root$copy"
git -c safe.directory="$PWD" ls-files -z | tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null | tar -xf - -C "$root$copy"
cp .venv/bin/uv "$root$copy/uv"
index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || :)}}

# The mounts end with the namespace.
export root copy index
# shellcheck disable=SC2016  # the inner shells expand them
unshare --mount sh -eu -c '
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    [ ! -d /etc/ssl/certs ] || { mkdir -p "$root/etc/ssl/certs"; mount --bind /etc/ssl/certs "$root/etc/ssl/certs"; }
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
    exec chroot "$root" sh -eu -c "
        cd $copy
        [ -x .venv/bin/python ] || ./uv venv --quiet --python /usr/bin/python3 .venv
        ./uv pip install --quiet --python .venv/bin/python --editable \".[page,report,solver,sweep,test]\"
        exec .venv/bin/python -m pytest -p no:cacheprovider \"\$@\"" sh "$@"
' sh "$@"
