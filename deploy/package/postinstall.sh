#!/bin/sh
# After the files are unpacked: the user, the group, the folder of the journal. The service is not enabled: the
# configuration has to name the site's classes first. After an upgrade it is restarted if it was running.
# dpkg says `configure`. rpm says how many versions of the package there are: 1, or 2 during an upgrade.
set -e

case $1 in
configure | [1-9]) ;;
*) exit 0 ;;
esac
getent group makeway >/dev/null || groupadd --system makeway
getent group makeway-users >/dev/null || groupadd --system makeway-users
getent passwd makeway >/dev/null ||
    useradd --system --gid makeway --home-dir /var/lib/makeway --no-create-home --shell /usr/sbin/nologin makeway
# One that is there may belong to another user: the unit says which one the daemon runs as.
[ -d /var/lib/makeway ] || install -d -m 700 -o makeway -g makeway-users /var/lib/makeway
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
# During an upgrade by rpm, files of the old version are still there: postremove.sh restarts the daemon.
[ "$1" != configure ] || systemctl try-restart makeway.service makeway-page.service
