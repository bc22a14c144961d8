"""Entry point of `ddp-play` and `python -m ddp_play`. The version is printed before the slow imports."""

import signal
import sys

from ddp_play import VERSION_LINE

INTERRUPTED = 130


def main() -> None:
    """Run the command of the process's arguments."""
    try:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # as Ctrl-C: what was begun is ended in order
            signal.signal(signal.SIGTERM, _interrupt)
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(VERSION_LINE + "\n")
            return
        from ddp_play.cli.main import main as run_verb  # noqa: PLC0415 - typer takes 0.1 s to import

        run_verb()
    except KeyboardInterrupt:  # during the imports; a verb says more
        sys.stderr.write("error: interrupted: nothing was started\n")
        sys.exit(INTERRUPTED)


def _interrupt(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
