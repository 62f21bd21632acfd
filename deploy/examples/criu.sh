#!/bin/sh
# A program without checkpoints of its own, saved and restored by CRIU:
#     sbatch criu.sh PROGRAM [ARGUMENT...]
# CRIU has to be installed on the nodes, and the job has to be allowed to use it (`criu check`). The program must not have
# connections to other machines. Its files and this folder have to be on a shared file system. Its process ids have to be
# free on the node where it is restored.
#SBATCH --job-name=criu
#SBATCH --time=02:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -eu
. "${MAKEWAY:-/opt/makeway}/makeway-job.sh"

stand_still_s=${STAND_STILL_S:-60}
images=criu.$SLURM_JOB_ID
output=$images/output # not the output of the job: CRIU has to find the file unchanged
mkdir -p "$images"

# The program is left stopped, because it would do again what it does now. If its nodes are not needed, it goes on.
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
    # A session of its own, without terminal and input: CRIU has less to restore.
    # shellcheck disable=SC2016  # the inner shell expands them
    makeway_run sh -c 'echo "$$" >"$0/pid" && exec setsid "$@" </dev/null >>"$0/output" 2>&1' "$images" "$@"
fi
