#!/bin/sh
# Installs another major version of Slurm in its own folder, from Debian's packages, for the tests:
#     install-slurm-chroot.sh 24.11    (Debian 13, trixie)
#     install-slurm-chroot.sh 26.05    (Debian unstable, sid)
# Nothing outside that folder changes, except that debootstrap is installed. It can be run again, also at the same time,
# and does nothing if the version is installed. Needs Debian or Ubuntu, and root or sudo without a password.
#
# MAKEWAY_CHROOTS: where the folders are (default /var/cache/makeway-chroots)
# MAKEWAY_DEBIAN_MIRROR: where the packages are (default http://deb.debian.org/debian)
set -eu

chroots=${MAKEWAY_CHROOTS:-/var/cache/makeway-chroots}
mirror=${MAKEWAY_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# The example jobs of the tests need Python.
packages="slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins slurmdbd slurm-wlm-mysql-plugin python3"
version=${1:-}

die() {
    echo "install-slurm-chroot: $1" >&2
    exit 2
}

case $version in
24.11) suite=trixie ;;
26.05) suite=sid ;;
*) die "the version must be 24.11 or 26.05, not '$version'" ;;
esac
root=$chroots/$version

installed() {
    chroot "$1" slurmctld -V 2>/dev/null
}

all_there() {
    # shellcheck disable=SC2086  # the list has to be split
    chroot "$1" dpkg-query --show $packages >/dev/null 2>&1
}

fill() {
    # The chroot reaches the mirror as this machine does: by its name servers and its proxy.
    cp /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
    for setting in $(apt-config dump --format '%f=%v%n' | grep '^Acquire::http::Proxy=' || true); do
        printf 'Acquire::http::Proxy "%s";\n' "${setting#*=}" >"$1/etc/apt/apt.conf.d/30makeway-proxy"
    done
    chroot "$1" apt-get -q -o Acquire::Check-Valid-Until=false update || die "apt-get update failed, see above"
    # shellcheck disable=SC2086  # the list has to be split
    chroot "$1" apt-get install -y -q --no-install-recommends $packages || die "apt-get install failed, see above"
    chroot "$1" apt-get clean
}

if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "run it as root, or as a user whose sudo asks for no password"
    exec sudo -n MAKEWAY_CHROOTS="$chroots" MAKEWAY_DEBIAN_MIRROR="$mirror" "$0" "$@"
fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
mkdir -p "$chroots"
exec 9>"$chroots/.lock"
flock 9
if [ -d "$root" ]; then
    found=$(installed "$root") || die "$root exists but has no working slurmctld: remove it and run this again"
    all_there "$root" || fill "$root"
    echo "install-slurm-chroot: $found is in $root"
    exit 0
fi

if ! command -v debootstrap >/dev/null 2>&1; then
    command -v apt-get >/dev/null 2>&1 || die "there is neither debootstrap nor apt-get here: install debootstrap first"
    apt-get update -q || die "apt-get update failed, see above"
    apt-get install -y -q --no-install-recommends debootstrap || die "apt-get install failed, see above"
fi

partial=$(mktemp -d "$chroots/.partial.XXXXXX")
trap 'umount "$partial/proc" "$partial/sys" 2>/dev/null; rm -rf --one-file-system "$partial"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$partial"

debootstrap --variant=minbase "$suite" "$partial" "$mirror" || die "debootstrap $suite failed, see above"
printf '#!/bin/sh\nexit 101\n' >"$partial/usr/sbin/policy-rc.d"
chmod 755 "$partial/usr/sbin/policy-rc.d"
fill "$partial"
found=$(installed "$partial") || die "installed, but slurmctld does not start in $partial"
case $found in
*" $version".*) ;;
*) die "$suite now has '$found', not $version" ;;
esac
mv "$partial" "$root"
trap - EXIT
echo "install-slurm-chroot: installed $found in $root"
