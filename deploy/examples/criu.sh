#!/bin/sh
# A program that knows nothing of checkpoints, saved and restored by CRIU:
#     sbatch criu.sh PROGRAM [ARGUMENT...]
# CRIU has to be on the nodes, and the job allowed to use it (`criu check`). The program must not be connected to other
# machines, and its files have to be on a file system that all nodes share, as this folder has to be. Its process ids have
# to be free where it is restored.
#SBATCH --job-name=criu
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
. "${MAKEWAY:-/opt/makeway}/makeway-job.sh"

stand_still_s=${STAND_STILL_S:-60}
images=criu.$SLURM_JOB_ID
output=$images/output # not the job's own: CRIU wants to find it as it was
mkdir -p "$images"

# The program is left stopped: what it would do now would be done again. If its nodes are not wanted, it goes on.
save() {
    new=$images/$(date +%s)
    pid=$(cat "$images/pid")
    mkdir "$new" &&
        criu dump --tree "$pid" --images-dir "$new" --log-file dump.log --leave-stopped &&
        wc -c <"$output" >"$new/output-size" &&
        sync &&
        echo "$new" >"$images/latest.new" &&
        mv "$images/latest.new" "$images/latest" || return 1
    (sleep "$stand_still_s" && kill -s CONT -- "-$pid") >/dev/null 2>&1 &
}

makeway_on_checkpoint save
if [ -e "$images/latest" ]; then
    latest=$(cat "$images/latest")
    echo "goes on from $latest"
    truncate -s "$(cat "$latest/output-size")" "$output"
    rm -f "$images/pid"
    makeway_run criu restore --images-dir "$latest" --log-file restore.log --pidfile "$PWD/$images/pid"
else
    # A session of its own, no terminal and no input: what CRIU need not restore cannot fail.
    # shellcheck disable=SC2016  # the inner shell expands them
    makeway_run sh -c 'echo "$$" >"$0/pid" && exec setsid "$@" </dev/null >>"$0/output" 2>&1' "$images" "$@"
fi
