#!/bin/sh
# A stranger's afternoon: a clean Debian (chroot.sh) gets a Slurm with accounting from Debian's packages, and makeway from
# its own; then the page docs/afternoon.md is gone through, and makeway is purged. Prints how long each part takes:
#     afternoon.sh PACKAGE PYTHON
# PYTHON has makeway's development tools.
set -eu

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/chroot.sh"
python=$2

enter "$1" /tmp/makeway.deb
cp "$(dirname "$0")/../install-slurm.sh" "$root/tmp/install-slurm.sh"

took() {
    now=$(date +%s)
    echo "$((now - since)) s: $1"
    since=$now
}

since=$(date +%s)
inside /tmp/install-slurm.sh accounting >/dev/null || die "Slurm cannot be installed"
took "a Slurm with accounting is installed"
inside apt-get install -y -q --no-install-recommends /tmp/makeway.deb >/dev/null || die "makeway cannot be installed"
took "makeway is installed"
MAKEWAY_CLEAN_DEBIAN=$root "$python" -m pytest -q -rP -p no:cacheprovider tests/docs/test_afternoon.py -k clean_debian
took "the page, on a Slurm that was started for it"
inside apt-get purge -y -q makeway >/dev/null || die "makeway cannot be purged"
took "makeway is purged"
left=$(find "$root" -xdev -name '*makeway*' ! -path "$root/tmp/*" ! -path "$root/etc/apt/*" ! -path "$root/proc/*")
is "what is left of makeway" "$left" ""
inside getent passwd makeway && die "the user is left"
echo "afternoon: nothing of makeway is left in this $suite"
