#!/bin/sh
# A program without checkpoints of its own, saved and restored by DMTCP, which needs no privilege:
#     sbatch dmtcp.sh PROGRAM [ARGUMENT...]
# This folder has to be on a shared file system. What the program prints between a checkpoint and its end, it prints again
# after the restart. DMTCP uses the signal USR2 in the program; makeway's signal goes to this script only.
#SBATCH --job-name=dmtcp
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
. "${MAKEWAY:-/opt/makeway}/makeway-job.sh"

images=dmtcp.$SLURM_JOB_ID
mkdir -p "$images/new"

# dmtcp_command blocks until every process is saved. Each checkpoint gets a folder of its own, because images of processes
# that have ended since would not match the others.
save() {
    rm -f "$images/new/"*
    kept=$images/$(date +%s)
    DMTCP_COORD_PORT=$(cat "$images/port") dmtcp_command --bcheckpoint &&
        mkdir "$kept" &&
        mv "$images/new/"ckpt_*.dmtcp "$kept" &&
        sync &&
        echo "$kept" >"$images/latest.new" &&
        mv "$images/latest.new" "$images/latest"
}

makeway_on_checkpoint save
coordinator="--new-coordinator --coord-port 0 --port-file $images/port --ckptdir $images/new"
# shellcheck disable=SC2086  # the options are to be split; the names in them have no blanks
if [ -e "$images/latest" ]; then
    latest=$(cat "$images/latest")
    echo "goes on from $latest"
    makeway_run dmtcp_restart $coordinator "$latest/"ckpt_*.dmtcp
else
    makeway_run dmtcp_launch $coordinator "$@"
fi
