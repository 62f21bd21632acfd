"""Where `makeway` begins. Until the command line is imported, Ctrl-C ends the process without a traceback."""

import signal


def main() -> int:
    """Run `makeway` with the arguments of the process. Returns the exit status."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as under nohup
    if ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from makeway.daemon.cli.main import main as run

    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()
