#!/bin/sh
# Before the files go, but not at an upgrade: what makeway holds or has taken goes back, then the daemon ends.
set -e

[ "$1" = remove ] || exit 0
if [ -S /run/makeway/makeway.sock ]; then
    /opt/makeway/bin/makeway stop --restore --wait 5m ||
        echo "makeway: not everything was given back: see /usr/share/doc/makeway and scontrol show reservation" >&2
fi
if [ -d /run/systemd/system ]; then
    systemctl disable --now makeway.service makeway-page.service
fi
