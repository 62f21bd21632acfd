#!/bin/sh
# Before the files go, but not at an upgrade: what makeway holds or has taken goes back, then the daemon ends.
# dpkg says `remove`. rpm says how many versions of the package stay: 0, or 1 during an upgrade.
set -e

case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -S /run/makeway/makeway.sock ]; then
    /opt/makeway/bin/makeway stop --restore --wait 5m ||
        echo "makeway: not everything was given back: see /usr/share/doc/makeway and scontrol show reservation" >&2
fi
if [ -d /run/systemd/system ]; then
    systemctl disable --now makeway.service makeway-page.service
fi
