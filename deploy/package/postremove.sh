#!/bin/sh
# After the files went. The journal, the configuration and the user stay until dpkg purges the package; rpm has no purge.
# rpm says how many versions of the package stay: 1 ends an upgrade, and the daemon is restarted if it was running.
set -e

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    case $1 in
    [1-9]) systemctl try-restart makeway.service makeway-page.service ;;
    esac
fi
[ "$1" = purge ] || exit 0
rm -rf /var/lib/makeway /etc/makeway
! getent passwd makeway >/dev/null || userdel makeway
for group in makeway makeway-users; do
    ! getent group "$group" >/dev/null || groupdel "$group"
done
