#!/bin/sh
# Builds both packages and tries them at once, each in a copy of a clean Debian (chroot.sh): that for Debian along the
# afternoon of the documentation, that for EL 9 meanwhile:
#     test-both.sh PYTHON FOLDER
# PYTHON has makeway's development tools. FOLDER gets the packages.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export MAKEWAY_DEBIAN_BASE="$work/debian"
# shellcheck source-path=SCRIPTDIR
. "$here/chroot.sh"

debian=
rpm=
end() {
    for process in $debian $rpm; do
        kill "$process" 2>/dev/null || true
        wait "$process" 2>/dev/null || true
    done
    rm -rf --one-file-system "$work"
}
trap end EXIT
trap 'exit 130' INT TERM HUP

# The Debian is made while the packages are built.
(
    trap 'exit 130' TERM # only when debootstrap has ended: nothing must write in the folder when it is removed
    fill_base
) >"$work/debian.log" 2>&1 &
debian=$!
files=$(sh "$here/build.sh" "deb rpm" "$1" "$2")
wait "$debian" || die "$(cat "$work/debian.log")"
debian=

# shellcheck disable=SC2086  # two paths, a line each
set -- "$1" $files
sh "$here/test-rpm.sh" "$3" >"$work/rpm.log" 2>&1 &
rpm=$!
status=0
sh "$here/afternoon.sh" "$2" "$1" || status=$?
wait "$rpm" || status=$?
rpm=
cat "$work/rpm.log"
[ "$status" = 0 ]
