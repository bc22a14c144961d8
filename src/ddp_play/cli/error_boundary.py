"""Error boundary of all verbs: the only place that turns exceptions into messages and exit codes."""

from __future__ import annotations

import tempfile
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ddp_play.cli import console
from ddp_play.errors import DdpPlayError, Interrupted

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def error_boundary() -> Iterator[None]:
    """Print expected errors and exit with the code of their class; for all others write a log and exit with 70."""
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except DdpPlayError as error:
        console.error(error.message, hint=error.hint)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        console.error("interrupted")
        raise typer.Exit(Interrupted.exit_code) from None
    except BrokenPipeError:
        raise typer.Exit(0) from None
    except Exception as error:  # noqa: BLE001 - the boundary writes the traceback to a log
        console.error(f"ddp-play itself failed: {error}", hint=f"please report it with {_write_log()}")
        raise typer.Exit(70) from None


def _write_log() -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="ddp-play-crash-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(traceback.format_exc())
        return Path(log.name)
