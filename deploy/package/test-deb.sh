#!/bin/sh
# Installs, tries, upgrades and purges the Debian package in a clean Debian (chroot.sh):
#     test-deb.sh PACKAGE
set -eu

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/chroot.sh"

install_it() {
    inside apt-get install -y -q --reinstall --no-install-recommends /tmp/makeway.deb >/dev/null
}

enter "$1" /tmp/makeway.deb
install_it || die "it cannot be installed"
check_installed /usr/share/zsh/vendor-completions

# Installed again it is an upgrade.
start_daemon
install_it || die "no upgrade"
check_upgraded

inside apt-get remove -y -q makeway >"$root/tmp/removal" || die "it cannot be removed"
check_removed "$configuration"
inside apt-get purge -y -q makeway >/dev/null || die "it cannot be purged"
left=$(inside sh -c 'ls -d /etc/makeway /var/lib/makeway 2>/dev/null; getent passwd makeway; getent group makeway makeway-users') || true
is "what is left" "$left" ""
echo "test-deb: $(basename "$1") was installed, tried, upgraded and purged in a clean $suite"
