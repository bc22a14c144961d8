"""Zip file of `ddp_play.guard` for the hosts, and the command that receives and starts it there."""

from __future__ import annotations

import ast
import base64
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

# What the host's python3 gets as its program. The loader is its argument, in base64: sshd gives the line to the login
# shell, whatever that is. csh and tcsh allow no line break between quotes and replace `!`, fish reads backslashes.
_START = "import binascii,sys,zlib;exec(zlib.decompress(binascii.a2b_base64(sys.argv[1])));start()"
NAME = "ddp-play"  # word before the verb, by which a list of processes shows and `occupants` finds a channel


@cache
def loader() -> str:
    """Source of `guard.loader` without comments and docstrings, and with what it imports of `guard.state_directory`."""
    own, other = (ast.parse((GUARD / f"{name}.py").read_text()) for name in ("loader", "state_directory"))
    body: list[ast.stmt] = []
    for node in own.body:
        if isinstance(node, ast.ImportFrom) and node.module == "state_directory":
            body += _definitions(other, {alias.name for alias in node.names})
        else:
            body.append(node)
    whole = ast.Module(body, [])
    for part in ast.walk(whole):
        if isinstance(part, (ast.Module, ast.FunctionDef)) and ast.get_docstring(part) is not None and part.body[1:]:
            del part.body[0]
    return ast.unparse(whole)


def _definitions(module: ast.Module, names: set[str]) -> list[ast.stmt]:
    """Functions and constants of a module, and the constants that they use."""
    found = [node for node in module.body if _name(node) in names]
    used = {leaf.id for node in found for leaf in ast.walk(node) if isinstance(leaf, ast.Name)} | names
    return found if used == names else _definitions(module, used)


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


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
        _add(archive, "__main__.py", b"from guard.main import run\nrun()\n")
    return buffer.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, content)


@cache
def preamble() -> bytes:
    """First bytes on stdin of the program: a header of 84 bytes, then the zip."""
    return framed(program())


def framed(zipped: bytes) -> bytes:
    """A zip with its header."""
    return f"{len(zipped)} {hashlib.sha256(zipped).hexdigest()}".ljust(83).encode() + b"\n" + zipped


def shell_command(python: str, verb: str, *arguments: str, state_dir: str = "") -> str:
    """The command line for a POSIX shell on the host. `python` empty: the first python3 there is.

    `state_dir`: the host variable ddp_state_dir; empty: the program chooses a directory.
    """
    given = [zlib.compress(json.dumps([state_dir, *arguments]).encode(), 9).hex()] if state_dir or arguments else []
    packed = base64.b64encode(zlib.compress(loader().encode(), 9)).decode()
    words = shlex.join(["-I", "-S", "-c", _START, packed, NAME, verb, *given])
    if python:
        return f"exec {shlex.quote(python)} {words}"
    return f'exec "$(command -v python3 || echo /usr/libexec/platform-python)" {words}'
