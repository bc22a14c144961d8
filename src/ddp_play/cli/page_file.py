"""Files that a verb writes where the user wants them: what is wrong with the place is no crash."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ddp_play.cli.next_commands import as_word
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def check_output(path: Path, *, example: str = "report.html") -> None:
    """UsageError if no file can be written there, as far as that can be seen before. `example`: name of such a file."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory", hint=f"name a file, such as {path / example}")
    if not path.parent.is_dir():
        raise UsageError(f"there is no directory {path.parent}", hint=f"mkdir -p {as_word(path.parent)}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """UsageError for what the file system says while this file is written: no permission, read-only, full."""
    try:
        yield
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise UsageError(why, hint="name a file in a directory that has space and where you may write") from error
