"""Entry point of `ddp-play` and `python -m ddp_play`. The version is printed before the slow imports."""

import sys

from ddp_play import VERSION_LINE


def main() -> None:
    """Run the command of the process's arguments."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(VERSION_LINE + "\n")
        return
    from ddp_play.cli.main import main as run_verb  # noqa: PLC0415 - typer takes 0.1 s to import

    run_verb()


if __name__ == "__main__":
    main()
