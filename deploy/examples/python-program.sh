#!/bin/sh
# A program that handles the signal itself. It calls makeway-done when its work is saved.
#SBATCH --job-name=python-program
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
MAKEWAY=${MAKEWAY:-/opt/makeway}
PATH=$PATH:$MAKEWAY # makeway-done
. "$MAKEWAY/makeway-job.sh"

makeway_forward_checkpoint USR1
# A program with several tasks or nodes: `makeway_run srun python3 ...`; srun forwards the signal to every task. Only one task
# calls makeway-done, when all tasks have saved.
# shellcheck disable=SC2086  # the options are to be split
makeway_run ${LAUNCHER:-} python3 "${PROGRAM:-python_program.py}" --state "python-program.$SLURM_JOB_ID.json" ${OPTIONS:-}
