#!/bin/sh
# Installs, tries, upgrades and removes the rpm in a clean Debian (chroot.sh), with Debian's rpm:
#     test-rpm.sh PACKAGE
# What the package needs has its name of EL 9, and rpm does not know the packages of dpkg: the names are compared here,
# and the installation does not look at them.
set -eu

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/chroot.sh"

# EL 9 has glibc 2.34 and the libstdc++ of GCC 11: the newest symbols that a library may ask for.
newest_symbols="GLIBC_2.34 GLIBCXX_3.4.29"

rpm() {
    inside rpm "$@"
}

query() {
    rpm -qp --queryformat "$1" /tmp/makeway.rpm
}

enter "$1" /tmp/makeway.rpm
inside apt-get install -y -q --no-install-recommends rpm >/dev/null || die "there is no rpm in $suite"
python=$(query '[%{REQUIRES}\n]' | grep '^python') || die "it needs no Python"
inside apt-get install -y -q --no-install-recommends "$python" libstdc++6 passwd >/dev/null || die "there is no $python in $suite"

is "what it needs" "$(query '[%{REQUIRES}\n]' | grep -v '^rpmlib(' | sort | xargs)" "libstdc++ $python shadow-utils"
is "what it recommends" "$(query '[%{RECOMMENDS}\n]')" slurm
is "its licence" "$(query '%{LICENSE}')" Apache-2.0
is "its summary" "$(query '%{SUMMARY}')" "Makes way for urgent jobs on a Slurm cluster"
is "the flags of the configuration" "$(query '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' | grep "$configuration")" "cn $configuration"
# EL's folders are those of another package, and some have another mode.
is "a folder of the system" "$(query '[%{FILEMODES:perms} %{FILENAMES}\n]' | grep '^d' | grep -v makeway)" ""

rpm -i --force-debian --nodeps /tmp/makeway.rpm || die "it cannot be installed"
check_installed /usr/share/zsh/site-functions
is "a file that is not as in the package" "$(rpm -V --nodeps makeway)" ""
for symbol in $newest_symbols; do
    found=$(find "$root/opt/makeway" -name '*.so*' -exec grep -aohE "${symbol%_*}_[0-9.]+[0-9]" {} + | sort -uV | tail -n 1)
    [ -n "$found" ] || die "no library needs any ${symbol%_*}"
    is "the newer one of $symbol and a library's" "$(printf '%s\n' "$found" "$symbol" | sort -V | tail -n 1)" "$symbol"
done

# Installed again it is an upgrade: rpm runs the scripts of both packages.
start_daemon
rpm -U --force-debian --replacepkgs --nodeps /tmp/makeway.rpm || die "no upgrade"
check_upgraded

rpm -e --force-debian makeway >"$root/tmp/removal" || die "it cannot be removed"
check_removed "$configuration.rpmsave"
is "what is left in /etc/makeway" "$(ls "$root/etc/makeway")" "makeway.yaml.rpmsave"
echo "test-rpm: $(basename "$1") was installed, tried, upgraded and removed in a clean $suite"
