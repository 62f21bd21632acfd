#!/bin/sh
# After the files went. The journal, the configuration and the user stay until the package is purged.
set -e

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
[ "$1" = purge ] || exit 0
rm -rf /var/lib/makeway /etc/makeway
! getent passwd makeway >/dev/null || userdel makeway
for group in makeway makeway-users; do
    ! getent group "$group" >/dev/null || groupdel "$group"
done
