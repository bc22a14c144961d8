"""Zip file of `ddp_play.guard` for the hosts, and the command that receives and starts it there."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
import zipfile
import zlib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GUARD = Path(str(files("ddp_play.guard")))

# What the host's python3 gets as its program: it reads a header of HEADER_BYTES from stdin, "<size of the loader> <size
# of the zip> <sha256 of the zip>", then the loader. What follows the zip is for the program in it. sshd gives the line
# to the user's login shell, whatever that is: csh and tcsh allow no line break between quotes and replace `!`, fish
# reads backslashes between quotes.
_START = (
    'import os,sys;r=lambda n:b""if n<1 else(lambda c:c+r(n-len(c)))(os.read(0,n)or sys.exit(71));'
    "h=r(96).split();exec(r(int(h[0])));start(h)"
)
HEADER_BYTES = 96
NAME = "ddp-play"  # word before the verb, by which a list of processes shows and `occupants` finds a channel


@cache
def program() -> bytes:
    """The zip file. The same sources give the same bytes."""
    return zipped({})


def zipped(replaced: Mapping[str, bytes]) -> bytes:
    """The zip file with other sources for some modules (`protocol.py`), as tests of mixed versions need it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(GUARD.glob("*.py")):
            _add(archive, f"guard/{path.name}", replaced.get(path.name) or path.read_bytes())
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


@cache
def preamble() -> bytes:
    """First bytes on stdin of the program: a header, the loader, the zip."""
    return framed(program())


def framed(zipped: bytes) -> bytes:
    """A zip with what goes before it on stdin."""
    loader = (GUARD / "loader.py").read_bytes()
    header = f"{len(loader)} {len(zipped)} {hashlib.sha256(zipped).hexdigest()}"
    return header.ljust(HEADER_BYTES - 1).encode() + b"\n" + loader + zipped


def shell_command(python: str, verb: str, *arguments: str, state_dir: str = "") -> str:
    """The command line for a POSIX shell on the host. `python` empty: the first python3 there is.

    `state_dir`: the host variable ddp_state_dir; empty: the program chooses a directory.
    """
    given = [zlib.compress(json.dumps([state_dir, *arguments]).encode(), 9).hex()] if state_dir or arguments else []
    words = shlex.join(["-I", "-S", "-c", _START, NAME, verb, *given])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'exec "$(command -v python3 || echo /usr/libexec/platform-python)" {words}'
