#!/bin/sh
# A loop in the batch script itself. The state is small and saved after every step: a finished step is never done again,
# wherever the job is stopped.
#SBATCH --job-name=shell-loop
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
. "${MAKEWAY:-/opt/makeway}/makeway-job.sh"

steps=${STEPS:-60}
state=shell-loop.$SLURM_JOB_ID.state

# A reader of the state finds the old one or the new one, never half of one. The signal may come between any two commands:
# the state is one variable, which one command sets.
save() {
    echo "$reached" >"$state.new" && sync "$state.new" && mv "$state.new" "$state"
}

# One step of work: prints the number that follows $1 in step $2. Replace it with your own program.
work() {
    sleep "${STEP_S:-10}"
    echo "$1 $2" | cksum | cut -d ' ' -f 1 >"$state.step"
}

step=0
value=1
if [ -e "$state" ]; then
    read -r step value <"$state"
    echo "goes on after step $step"
fi
reached="$step $value"

makeway_on_checkpoint save
saved_s=$(date +%s)
while [ "$step" -lt "$steps" ]; do
    # In the background, so that the signal is handled at once and not at the end of the step.
    makeway_run work "$value" "$((step + 1))"
    read -r value <"$state.step"
    step=$((step + 1))
    reached="$step $value"
    save
    # Report it now and then: each report costs the controller three short requests.
    if [ "$(($(date +%s) - saved_s))" -ge 60 ]; then
        makeway_checkpointed
        saved_s=$(date +%s)
    fi
done
echo "the result of $steps steps is $value"
rm -f "$state" "$state.step"
