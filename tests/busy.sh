#!/bin/sh
# Runs a command while busy loops compete for the processors, to show that the tests hold on a busy machine:
#     busy.sh [COMMAND...]        (without a command: make test)
# The loops end with the command, and when this script is interrupted. The exit status is the command's.
#
# MAKEWAY_BUSY_LOOPS: how many loops (default 4)
set -eu

loops=${MAKEWAY_BUSY_LOOPS:-4}
me=$$
pids=

case $loops in
'' | *[!0-9]*)
    echo "busy: MAKEWAY_BUSY_LOOPS must be a number, not '$loops'" >&2
    exit 2
    ;;
esac
[ $# -gt 0 ] || set -- make test

# shellcheck disable=SC2086,SC2317  # the list has to be split, and a trap calls this
end_loops() {
    # Not TERM: a loop that has just been forked may still have this script's traps, and would lose it.
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
    pids=
}
trap end_loops EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

number=0
while [ "$number" -lt "$loops" ]; do
    number=$((number + 1))
    # A loop also ends if this script is killed: it looks at its parent every now and then.
    (
        trap - EXIT INT TERM HUP
        while kill -0 "$me" 2>/dev/null; do
            count=0
            while [ "$count" -lt 100000 ]; do count=$((count + 1)); done
        done
    ) &
    pids="$pids $!"
done
echo "busy: $loops busy loops run next to: $*" >&2
load() {
    cut -d' ' -f1-3 /proc/loadavg
}
echo "busy: load averages before: $(load)" >&2
status=0
"$@" || status=$?
echo "busy: load averages after: $(load); exit status $status" >&2
exit "$status"
