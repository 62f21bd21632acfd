# shellcheck shell=sh
# Lets a batch script save its work when makeway asks for it, and report when it is saved. Source this file; see JOBS.md.
#
#   makeway_on_checkpoint 'COMMAND' [SIGNAL]      COMMAND saves the work, and succeeds once it is saved
#   makeway_forward_checkpoint [SIGNAL]           the program saves at the signal, and calls makeway-done
#   makeway_run PROGRAM [ARGUMENT...]             runs the program, and returns its exit status
#   makeway_checkpointed                          reports a complete regular checkpoint
#   makeway_restarted                             true in a run after a requeue
#   makeway_signal_and_await SIGNAL FILE [SECONDS]  for COMMAND: signals the program, waits for a new FILE
#   makeway_signal_steps SIGNAL                   for COMMAND: signals all steps of the job
#   makeway_forward_to_steps [SIGNAL [ARGUMENT...]]  runs the rest of the script apart; its steps get the signal
#
# For POSIX shells (dash, bash), with or without `set -e` and `set -u`. If Slurm's commands are missing or fail, one line on
# standard error says so, and the job goes on; the report of a complete checkpoint is repeated for two minutes meanwhile.
# Outside a job, makeway_run only runs the program.

makeway_pid= # of the program that makeway_run runs
_makeway_starting= # not empty: makeway_run starts its program, and does not know its number yet
_makeway_deferred= # not empty: a signal came meanwhile
_makeway_signal=
_makeway_kind=
_makeway_command=
_makeway_interrupted=

makeway_on_checkpoint() {
    if [ -z "${1:-}" ]; then
        _makeway_say "makeway_on_checkpoint needs a command"
        return 2
    fi
    _makeway_arm "${2:-USR1}"
    _makeway_kind='command'
    _makeway_command=$1
}

makeway_forward_checkpoint() {
    _makeway_arm "${1:-USR1}"
    _makeway_kind=forward
}

makeway_run() {
    if [ "$#" -eq 0 ]; then
        _makeway_say "makeway_run needs a program"
        return 2
    fi
    if ! _makeway_in_job; then
        "$@"
        return
    fi
    _makeway_starting=1
    # A trap runs while the shell waits, not while a program runs in the foreground. The redirections keep the program's
    # standard input, which would be empty in the background.
    if (: 8<&0) 2>/dev/null; then
        { "$@" <&8 8<&- & } 8<&0
    else
        "$@" &
    fi
    makeway_pid=$!
    _makeway_starting=
    if [ -n "$_makeway_deferred" ]; then
        _makeway_deferred=
        _makeway_signalled
    fi
    _makeway_await
    makeway_pid=
    return "$_makeway_status"
}

makeway_checkpointed() {
    _makeway_in_job || return 0
    _makeway_publish ckpt
}

makeway_restarted() {
    case ${SLURM_RESTART_COUNT:-0} in
    *[!0]*) ;;
    *) return 1 ;;
    esac
    # A job that a requeued job submitted has inherited the variable.
    _makeway_in_job || return 1
    _makeway_restarts=$(_makeway_squeue "$(_makeway_job)" --Format=RestartCnt 2>/dev/null | tr -d '[:space:]') || :
    [ "$_makeway_restarts" != 0 ]
}

makeway_signal_and_await() {
    _makeway_file_before=$(_makeway_file "$2")
    _makeway_tell "$1" || return 1
    _makeway_end=$(($(date +%s) + ${3:-3600}))
    while [ "$(_makeway_file "$2")" = "$_makeway_file_before" ]; do
        if ! _makeway_alive "$makeway_pid" && [ "$(_makeway_file "$2")" = "$_makeway_file_before" ]; then
            _makeway_say "the program ended without a new $2"
            return 1
        fi
        if [ "$(date +%s)" -ge "$_makeway_end" ]; then
            _makeway_say "the program wrote no new $2 within ${3:-3600} s"
            return 1
        fi
        _makeway_doze
    done
}

makeway_signal_steps() {
    _makeway_in_job || return 0
    if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then
        _makeway_signal_task "$1"
    else
        _makeway_slurm scancel "--signal=$1" "$(_makeway_job)"
    fi
}

# Signal the steps of a task of an array by $1. While other tasks of the array wait, scancel takes the signal
# for one that failed, and would send it again after 5 s.
_makeway_signal_task() {
    _makeway_said=$(_makeway_within 4 scancel --verbose "--signal=$1" "$(_makeway_job)" 2>&1) && return 0
    case "$_makeway_said" in
    *retrying*) return 0 ;;
    esac
    printf '%s\n' "$_makeway_said" >&2
    return 1
}

makeway_forward_to_steps() {
    # In the script that this starts, the rest of the script follows.
    if ! _makeway_in_job || [ "${MAKEWAY_FORWARDED:-}" = "$SLURM_JOB_ID" ]; then
        return 0
    fi
    export MAKEWAY_FORWARDED="$SLURM_JOB_ID"
    _makeway_arm "${1:-USR1}"
    _makeway_kind=steps
    [ "$#" -eq 0 ] || shift
    makeway_run "$0" "$@" || exit "$?"
    exit 0
}

_makeway_say() {
    printf 'makeway: %s\n' "$(printf '%s' "$*" | tr '\n\r' '  ')" >&2 || :
}

_makeway_in_job() {
    [ -n "${SLURM_JOB_ID:-}" ]
}

# One array task has the id of the whole array; that id alone would mean all tasks. (The variables of an array may also be
# left over from the job that submitted this one.)
_makeway_job() {
    if [ "${SLURM_ARRAY_JOB_ID:-}" = "$SLURM_JOB_ID" ]; then
        printf '%s' "${SLURM_JOB_ID}_${SLURM_ARRAY_TASK_ID:-}"
    else
        printf '%s' "$SLURM_JOB_ID"
    fi
}

_makeway_slurm() {
    _makeway_within 20 "$@"
}

# Run a command of Slurm for at most $1 seconds, where there is `timeout`.
_makeway_within() (
    unset SLURM_CLUSTERS # the job's own cluster is the one that is configured here
    _makeway_most=$1
    shift
    if command -v timeout >/dev/null 2>&1; then
        timeout "$_makeway_most" "$@" </dev/null
    else
        "$@" </dev/null
    fi
)

# The output of squeue for the job $1 in the format $2, whatever variables the user has set for squeue.
_makeway_squeue() (
    unset SQUEUE_ACCOUNT SQUEUE_ALL SQUEUE_ARRAY SQUEUE_CLUSTERS SQUEUE_FEDERATION SQUEUE_FORMAT \
        SQUEUE_FORMAT2 SQUEUE_LICENSES SQUEUE_LOCAL SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_PRIORITY SQUEUE_QOS \
        SQUEUE_SIBLING SQUEUE_STATES SQUEUE_USERS
    _makeway_slurm squeue --noheader "--jobs=$1" "$2"
)

# Handle this signal, and no longer the previous one.
_makeway_arm() {
    _makeway_in_job || return 0
    if [ -n "$_makeway_signal" ]; then
        trap - "$_makeway_signal"
    fi
    _makeway_signal=${1#SIG}
    trap _makeway_signalled "$_makeway_signal"
}

_makeway_signalled() {
    _makeway_interrupted=1
    if [ "$_makeway_kind" != steps ] && [ -n "$_makeway_starting" ]; then
        _makeway_deferred=1 # makeway_run comes back to it as soon as it knows the program
        return 0
    fi
    # Signals during a checkpoint are ignored: that checkpoint answers them.
    trap '' "$_makeway_signal"
    case $_makeway_kind in
    command) _makeway_save ;;
    forward) _makeway_forward ;;
    steps) _makeway_forward_to_all ;;
    *) _makeway_say "a checkpoint was requested, but the script has not yet defined how to save: nothing is saved" ;;
    esac
    trap _makeway_signalled "$_makeway_signal"
}

_makeway_save() {
    _makeway_publish ckpt-begin
    # In a subshell: what ends it (an exit, an unset variable) does not end the job.
    if (eval "$_makeway_command"); then
        _makeway_publish ckpt
    else
        _makeway_say "the checkpoint failed (exit status $?): nothing is reported, and the job goes on"
    fi
}

_makeway_forward() {
    if _makeway_await_handler "$_makeway_signal"; then
        # Before the signal: the program writes into the same comment when it is done.
        _makeway_publish ckpt-begin
        kill -s "$_makeway_signal" "$makeway_pid" 2>/dev/null || :
    else
        _makeway_say "a checkpoint was requested, but no program is running that could write one"
    fi
}

_makeway_forward_to_all() {
    _makeway_publish ckpt-begin
    makeway_signal_steps "$_makeway_signal" || _makeway_say "the steps of the job could not be signalled"
}

_makeway_tell() {
    if ! _makeway_await_handler "$1" || ! kill -s "${1#SIG}" "$makeway_pid" 2>/dev/null; then
        _makeway_say "no program is running that could be signalled"
        return 1
    fi
}

# Waits until the program handles the signal: it would kill a program that is still starting. False if the program has ended.
# One look is not enough: a shell blocks every signal for an instant whenever it starts a program.
_makeway_await_handler() {
    _makeway_looks=0
    while [ -n "$makeway_pid" ] && _makeway_alive "$makeway_pid"; do
        if _makeway_handles "$makeway_pid" "$1"; then
            _makeway_looks=$((_makeway_looks + 1))
        else
            _makeway_looks=0
        fi
        if [ "$_makeway_looks" -eq 3 ]; then
            return 0
        fi
        _makeway_doze
    done
    return 1
}

_makeway_doze() {
    sleep 0.2 2>/dev/null || sleep 1
}

# Whether the process runs. A zombie does not.
_makeway_alive() {
    kill -0 "$1" 2>/dev/null || return 1
    case $(_makeway_proc "$1" State) in
    [ZX]*) return 1 ;;
    esac
}

# Whether the process catches the signal, or blocks it (as with sigwait). Without /proc: yes.
_makeway_handles() (
    number=$(_makeway_number "$2") || return 0
    for set in SigCgt SigBlk; do
        mask=$(_makeway_proc "$1" "$set")
        if [ -z "$mask" ]; then
            [ ! -r /proc/self/status ]
            return
        fi
        while [ "${#mask}" -gt 8 ]; do
            mask=${mask#?}
        done
        [ "$((0x$mask >> (number - 1) & 1))" -eq 0 ] || return 0
    done
    return 1
)

_makeway_number() (
    name=${1#SIG}
    number=1
    while [ "$number" -lt 32 ]; do
        if [ "$(kill -l "$number")" = "$name" ] || [ "$number" = "$name" ]; then
            printf '%s' "$number"
            return 0
        fi
        number=$((number + 1))
    done
    return 1
)

_makeway_proc() {
    sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status" 2>/dev/null || :
}

# The inode of a file, which changes when a new file is renamed into its place.
_makeway_file() {
    ls -di -- "$1" 2>/dev/null || :
}

# Waits for the program, however often a signal interrupts the wait. Its exit status goes into _makeway_status.
_makeway_await() {
    _makeway_status=
    _makeway_ended=
    while :; do
        _makeway_doubtful=$_makeway_interrupted # the last status may be the number of the signal
        _makeway_interrupted=
        _makeway_heard=0
        if [ -n "$_makeway_status" ] && ! kill -0 "$makeway_pid" 2>/dev/null; then
            wait "$makeway_pid" 2>/dev/null || _makeway_heard=$?
            if [ "$_makeway_heard" -eq 127 ]; then # bash says that there is no such child any more
                if [ -z "$_makeway_doubtful" ] || [ "$_makeway_status" -le 128 ]; then
                    return 0 # it had been waited for just before the signal
                fi
                _makeway_heard=-1
            fi
        else
            wait "$makeway_pid" || _makeway_heard=$?
        fi
        if [ "$_makeway_heard" -lt 0 ]; then
            # bash loses the exit status of a program that ends at the instant at which a signal arrives. Up to 5.2 it says -1.
            _makeway_say "the program has ended, and the shell has lost its exit status: 255 is returned"
            _makeway_status=255
            return 0
        fi
        _makeway_status=$_makeway_heard
        if [ -n "$_makeway_ended" ]; then
            return 0
        elif [ -z "$_makeway_interrupted" ] && [ "$_makeway_heard" -le 128 ]; then
            return 0
        elif ! kill -0 "$makeway_pid" 2>/dev/null; then
            _makeway_ended=1 # this status may be the number of a signal: wait once more
        fi
    done
}

# Replaces the last word makeway:$1=... in the comment of the job by makeway:$1=<now>. Never fails.
_makeway_publish() (
    set +e +u
    trap '' USR1 USR2
    export LC_ALL=C # bytes, not characters
    now=$(date +%s)
    if ! _makeway_write "$1" "$now" && [ "$1" = ckpt ]; then
        # Apart from the script and its output, so that nothing waits for it: makeway waits for the word until the grace is over.
        (_makeway_repeat "$1" "$now" &) </dev/null >/dev/null 2>&1
    fi
    return 0
)

# Tries again while Slurm does not answer, unless a later word of the same kind is there by now.
_makeway_repeat() {
    for pause in ${MAKEWAY_REPEATS-1 2 4 8 15 30 60}; do
        sleep "$pause"
        comment=$(_makeway_comment "$(_makeway_job)") || continue
        written=$(_makeway_time "${comment%.}" "$1")
        if [ "${written:-0}" -gt "$2" ] || _makeway_write "$1" "$2"; then
            return 0
        fi
    done
}

# The last time in the words makeway:$2=... of the comment $1, in whole seconds. Empty: there is none.
_makeway_time() {
    printf '%s\n' "$1" | tr '[:space:]' '\n' | sed -n "s/^makeway:$2=\([0-9]\{1,12\}\)\(\.[0-9]*\)\{0,1\}\$/\1/p" | sed -n '$p'
}

# Replaces the last word makeway:$1=... in the comment of the job by makeway:$1=$2. False if Slurm does not answer.
_makeway_write() (
    job=$(_makeway_job)
    word=makeway:$1=$2
    # The comment is read, changed and written as a whole: check whether another process of the job has written in between.
    for again in yes yes yes no; do
        comment=$(_makeway_comment "$job") || return 1
        comment=${comment%.}
        case " $(printf '%s' "$comment" | tr '[:space:]' ' ') " in
        *" $word "*) return 0 ;;
        esac
        if [ "$again" = no ]; then
            _makeway_say "$word is not written: other processes keep changing the comment"
            return 0
        fi
        new=$(_makeway_replaced "$comment" "$1" "$word")
        if [ "${#new}" -gt 1025 ] && [ "$1" = ckpt ]; then
            comment=$(_makeway_without "$comment" ckpt-begin)
            new=$(_makeway_replaced "${comment%.}" "$1" "$word")
        fi
        new=${new%.}
        if [ "${#new}" -gt 1024 ]; then
            _makeway_say "$word is not written: the comment would have ${#new} of 1024 characters"
            return 0
        fi
        if ! why=$(_makeway_slurm scontrol update "JobId=$job" "Comment=$new" 2>&1); then
            _makeway_say "$word is not written: scontrol: $why"
            return 1
        fi
    done
)

# The comment of the job, then a full stop that protects trailing newlines. False if the comment cannot be read.
_makeway_comment() (
    end='
.'
    comment=$({
        if ! why=$(_makeway_squeue "$1" --format=%k 2>&1 >&8 8>&-); then
            _makeway_say "nothing is written to the comment: squeue: $why"
            exit 1
        fi
        printf .
    } 8>&1) || return 1
    case $comment in
    *"$end") comment=${comment%"$end"} ;;
    *)
        _makeway_say "nothing is written to the comment: squeue does not show job $1"
        return 1
        ;;
    esac
    [ "$comment" != '(null)' ] || comment=
    printf '%s.' "$comment"
)

# The comment $1 with the word $3 instead of its words of kind $2, then a full stop.
_makeway_replaced() (
    kept=$(_makeway_without "$1" "$2")
    kept=${kept%.}
    printf '%s.' "${kept:+$kept }$3"
)

# The comment $1 without its words of kind $2, then a full stop. The rest is unchanged.
_makeway_without() (
    number='[0-9]\{1,12\}\(\.[0-9]\{1,9\}\)\{0,1\}'
    kept=$(printf '%s\n.' "$1" | sed -e ':again' \
        -e "s/^makeway:$2=$number\([[:space:]]\)//" -e 'tagain' \
        -e "s/^makeway:$2=$number\$//" \
        -e "s/[[:space:]]makeway:$2=$number\([[:space:]]\)/\2/" -e 'tagain' \
        -e "s/[[:space:]]makeway:$2=$number\$//" && printf .)
    end='
.'
    kept=${kept%.}
    printf '%s.' "${kept%"$end"}"
)

# The signal must not kill the script before it has defined what to do.
_makeway_arm USR1
