#!/bin/sh
# Before the files go, but not at an upgrade: what makeway holds or has taken goes back, then the daemon ends.
# dpkg says `remove`. rpm says how many versions of the package stay: 0, or 1 during an upgrade.
set -e

case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
# Also where no daemon runs: its journal may have open operations.
if ! /opt/makeway/bin/makeway stop --restore --wait 5m; then
    echo "makeway: not everything was given back. Holds end by themselves (\`scontrol show reservation\`). For the rest," >&2
    echo "makeway: install makeway again before its journal is purged, and start it in act mode." >&2
fi
if [ -d /run/systemd/system ]; then
    systemctl disable --now makeway.service makeway-page.service
fi
