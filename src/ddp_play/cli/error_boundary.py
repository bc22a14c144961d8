"""Error boundary of all verbs: the only place that turns exceptions into messages and exit codes."""

from __future__ import annotations

import errno
import os
import shlex
import tempfile
import traceback
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any

import typer

from ddp_play.bundle.disk_space import is_full
from ddp_play.bundle.paths import home
from ddp_play.cli import console
from ddp_play.errors import DdpPlayError, DiskFull, InternalError, Interrupted, UsageError
from ddp_play.planning.remedy_text import Asked, complete

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.ansible.runner import PlaybookRequest

# Base of typer's errors about options, arguments and verbs: click's class, or that of typer's own copy of click.
CommandLineError: Any = typer.BadParameter.__mro__[1]
# Free space of a disk that is not full.
SOME_BYTES = 1 << 20
# What the command of this process is about, for the commands in remedies.
_asked: ContextVar[Asked] = ContextVar("asked", default=Asked())  # noqa: B039 - a frozen value


def set_request(request: PlaybookRequest) -> None:
    """From now on, remedies name this request's inventory and login."""
    _asked.set(Asked(request.inventory, request.options))


@contextmanager
def error_boundary() -> Iterator[None]:
    """Print expected errors and exit with the code of their class; for all others write a log and exit with 70."""
    before = _asked.set(Asked())
    try:
        yield
    except (typer.Exit, typer.Abort):
        raise
    except CommandLineError as error:
        raise _exit(_usage_error(error)) from None
    except DdpPlayError as error:
        raise _exit(error) from None
    except KeyboardInterrupt:
        raise _exit(Interrupted("interrupted")) from None
    except BrokenPipeError:
        console.drop(console.STDOUT)  # what Python still holds would fail again when the process ends
        raise typer.Exit(0) from None
    except OSError as error:
        raise _exit(_of_full_disk(error) or _of_own_directory(error) or _crash(error)) from None
    except Exception as error:  # noqa: BLE001 - the boundary writes the traceback to a log
        raise _exit(_crash(error)) from None
    finally:
        _asked.reset(before)


def _crash(error: Exception) -> InternalError:
    return InternalError(f"ddp-play itself failed: {error}", hint=f"please report it with {_write_log()}")


def _of_full_disk(error: OSError) -> DiskFull | None:
    """The error of a full disk of this machine. A failed write has no file name: the fullest disk in use is named."""
    if not is_full(error):
        return None
    places = [place for place in (home(), *home().parents) if place.is_dir()][:1]
    places += [Path(os.environ.get("TMPDIR", "/")), Path.cwd()]
    place = error.filename or min((place for place in places if place.is_dir()), key=lambda at: disk_usage(at).free)
    if not error.filename and error.errno == errno.ENOSPC and disk_usage(place).free > SOME_BYTES:
        console.drop(console.STDOUT)  # the only file without a name that verbs write
        return DiskFull(
            "standard output takes no more: its disk is full", hint="free some space there, or write elsewhere"
        )
    another = "; export DDP_PLAY_HOME=DIRECTORY names another directory" if Path(place) == places[0] else ""
    return DiskFull(
        f"this machine has no space left for {place}: {error.strerror}",
        hint=f"free some space: df -h {shlex.quote(str(place))}{another}",
    )


def _of_own_directory(error: OSError) -> UsageError | None:
    """The error of a state directory that this user cannot use; None for other files and for missing ones in it."""
    place = str(error.filename or "")
    if isinstance(error, FileNotFoundError):  # a directory that can have none of its name, as /proc
        is_own = Path(place) in (home(), *home().parents)
    else:
        is_own = Path(place).is_relative_to(home())
    if not (place and is_own):
        return None
    return UsageError(
        f"ddp-play cannot keep runs and results in {home()}: {place}: {error.strerror}",
        hint="export DDP_PLAY_HOME=DIRECTORY names another directory; ddp-play doctor checks it",
    )


def _exit(error: DdpPlayError) -> typer.Exit:
    """Print the error, with --json also on stdout; return the exception that ends the process with its code."""
    error.hint = complete(error.hint, _asked.get())
    console.error(error.message, hint=error.hint)
    console.json_error(as_document(error))
    return typer.Exit(error.exit_code)


def as_document(error: DdpPlayError) -> dict[str, Any]:
    """The error for --json; `exit_class` and `exit_code` are named as in run.json."""
    return {
        "exit_class": error.kind,
        "exit_code": error.exit_code,
        "message": error.message,
        "hint": error.hint,
        "hosts": list(error.hosts),
    }


def _usage_error(error: Any) -> UsageError:
    """Error of typer about the command line, with typer's own guess of the nearest valid name.

    Without a verb, typer has printed the help already and has no message.
    """
    message = error.format_message() or "no verb was given"
    command = error.ctx.command_path if error.ctx is not None else "ddp-play"
    return UsageError(message[:1].lower() + message[1:].rstrip("."), hint=f"{command} --help")


def _write_log() -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="ddp-play-crash-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        log.write(traceback.format_exc())
        return Path(log.name)
