#!/bin/sh
# Installs what the tests need from the distribution's packages: Slurm and shellcheck. It starts no service.
# `install-slurm.sh accounting` also installs what accounting needs: slurmdbd and MariaDB.
# It can be run again and does nothing if everything is installed. Needs Debian or Ubuntu, and root or sudo without a
# password.
set -eu

packages="slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins shellcheck"
programs="slurmctld slurmd munged squeue scontrol sbatch scancel sinfo salloc shellcheck"
what="Slurm and shellcheck"
policy=/usr/sbin/policy-rc.d

die() {
    echo "install-slurm: $1" >&2
    exit 2
}

case ${1-} in
"") ;;
accounting)
    packages="$packages slurmdbd mariadb-server-core"
    programs="$programs slurmdbd sacctmgr sacct mariadbd mariadb-install-db"
    what="Slurm with accounting, MariaDB and shellcheck"
    ;;
*) die "the argument may be 'accounting', not '$1'" ;;
esac

all_there() {
    for program in $programs; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null 2>&1 || return 1
    done
}

version() {
    PATH="$PATH:/usr/sbin:/sbin" slurmctld -V
}

if all_there; then
    echo "install-slurm: $(version): $what are installed"
    exit 0
fi

command -v apt-get >/dev/null 2>&1 || die "there is no apt-get here: install $packages in another way"
if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "run it as root, or as a user whose sudo asks for no password"
    exec sudo -n "$0" "$@"
fi

# The packages' scripts ask policy-rc.d whether they may start a service. Meanwhile it answers no.
restore() {
    if [ -e "$policy.makeway-kept" ]; then
        mv -f "$policy.makeway-kept" "$policy"
    else
        rm -f "$policy"
    fi
}
[ ! -e "$policy" ] || [ -e "$policy.makeway-kept" ] || mv "$policy" "$policy.makeway-kept"
trap restore EXIT
trap 'exit 130' INT TERM HUP
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
apt-get update -q || die "apt-get update failed, see above"
# shellcheck disable=SC2086  # the list has to be split
apt-get install -y -q --no-install-recommends $packages || die "apt-get install failed, see above"
all_there || die "the packages are installed, but at least one of these programs is missing: $programs"
echo "install-slurm: installed $(version): $what"
