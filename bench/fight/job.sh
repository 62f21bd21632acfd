#!/bin/sh
# One job of the workload: it works, saves its work, and writes down what it does.
# Usage: job.sh FOLDER HELPER NAME WORK_MS INTERVAL_MS SAVE_MS SETUP_MS AFTER
# Work is time that passes; the processes only sleep. INTERVAL_MS 0: it cannot save its work. AFTER is what it does when it
# has saved its work at a signal: "continue", or "requeue" (itself).
#
# FOLDER/NAME.log gets a line for each event, "<ms since 1970> <event> <work done in ms>":
#   start     a run begins; the work is what the checkpoint has
#   work      it has read its checkpoint, and works from now on
#   save      a regular checkpoint begins; the work is what it will have
#   signalled a requested checkpoint begins
#   saved     a checkpoint is complete
#   term      it was asked to end
#   end       all its work is done
set -u

folder=$1 name=$3 total=$4 interval=$5 save=$6 setup=$7 after=$8
id=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
    name=${name}_$SLURM_ARRAY_TASK_ID
    id=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
fi
state=$folder/$name.state
paused=$folder/$name.paused
log=$folder/$name.log

# shellcheck source=../../deploy/makeway-job.sh
. "$2"

now() { date +%s%3N; }
note() { echo "$1 $2 $3" >>"$log"; }
seconds() { printf '%d.%03d' "$(($1 / 1000))" "$(($1 % 1000))"; }
# Before its first work a run has done what its checkpoint has.
worked() { if [ -n "$since" ]; then echo "$((saved + $1 - since - $(cat "$paused")))"; else echo "$saved"; fi; }

# Saves the work; the program does not work meanwhile. The first argument is the event that this begins with.
save_work() {
    began=$(now)
    work=$(worked "$began")
    note "$began" "$1" "$work"
    sleep "$(seconds "$save")"
    echo "$work" >"$state.new"
    mv "$state.new" "$state"
    finished=$(now)
    echo "$(($(cat "$paused") + finished - began))" >"$paused"
    note "$finished" saved "$work"
}

answer() {
    save_work signalled
    if [ "$after" = requeue ]; then
        scontrol requeue "$id"
    fi
}

since=
saved=$(cat "$state" 2>/dev/null || echo 0)
echo 0 >"$paused"
note "$(now)" start "$saved"
trap 'note "$(now)" term 0; exit 143' TERM
[ "$interval" -eq 0 ] || makeway_on_checkpoint answer

makeway_run sleep "$(seconds "$setup")"
since=$(now)
echo 0 >"$paused"
note "$since" work "$saved"
work=$saved
while [ "$work" -lt "$total" ]; do
    slice=$((total - work))
    if [ "$interval" -gt 0 ] && [ "$slice" -gt "$interval" ]; then
        slice=$interval
    fi
    makeway_run sleep "$(seconds "$slice")"
    work=$(worked "$(now)")
    if [ "$interval" -gt 0 ] && [ "$work" -lt "$total" ]; then
        # In a subshell: a signal meanwhile is answered when this checkpoint is complete.
        (save_work save)
        makeway_checkpointed
    fi
done
note "$(now)" end "$total"
