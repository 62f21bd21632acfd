#!/bin/sh
# After the files are unpacked: the user, the group, the folder of the journal. The service is not enabled: the
# configuration has to name the site's classes first. After an upgrade it is restarted if it was running.
set -e

[ "$1" = configure ] || exit 0
getent group makeway >/dev/null || groupadd --system makeway
getent group makeway-users >/dev/null || groupadd --system makeway-users
getent passwd makeway >/dev/null ||
    useradd --system --gid makeway --home-dir /var/lib/makeway --no-create-home --shell /usr/sbin/nologin makeway
install -d -m 700 -o makeway -g makeway-users /var/lib/makeway
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart makeway.service makeway-page.service
fi
