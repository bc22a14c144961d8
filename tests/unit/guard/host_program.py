"""The program as it runs on a host: the zip file, started by Python, with a state directory of the test's own."""

from __future__ import annotations

import functools
import importlib.util
import marshal
import os
import subprocess
import sys
import zipfile
from io import BytesIO
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import FrameReader, encode
from ddp_play.run import host_program

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def compiled(program: bytes) -> bytes:
    """The program with the byte code of its modules: Python compiles a zip file at each start, and tests start many."""
    buffer = BytesIO()
    with zipfile.ZipFile(BytesIO(program)) as plain, zipfile.ZipFile(buffer, "w") as archive:
        for name in plain.namelist():
            source = plain.read(name)
            archive.writestr(name, source)
            if name.startswith("guard/"):
                archive.writestr(f"{name}c", byte_code(name, source))
    return buffer.getvalue()


def byte_code(name: str, source: bytes) -> bytes:
    """What a .pyc file of this source holds, marked as valid without a look at the source (PEP 552)."""
    code = compile(source, name, "exec", dont_inherit=True)
    unchecked = (1).to_bytes(4, "little")
    return importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source) + marshal.dumps(code)


def start(root: Path, *arguments: str, wrap: tuple[str, ...] = ()) -> subprocess.Popen[bytes]:
    """`<program> ARGUMENTS...` with pipes; its files go below `root`. `wrap`: a command that starts it."""
    program = root / "guard-test.pyz"
    if not program.exists():
        program.write_bytes(compiled(host_program.program()))
    argv = [*wrap, sys.executable, "-I", "-S", str(program), *arguments]
    env = {**os.environ, "DDP_PLAY_HOST_DIR": str(root)}
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


class Line:
    """The controller's end of a channel: orders out, frames in."""

    def __init__(self, root: Path, *, wrap: tuple[str, ...] = ()) -> None:
        self.process = start(root, "channel", wrap=wrap)
        self._reader = FrameReader(expect_magic=True)
        self._frames: list[tuple[dict[str, Any], bytes]] = []

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()

    def order(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        """Send one order."""
        assert self.process.stdin is not None
        self.process.stdin.write(encode(kind, payload, **fields))
        self.process.stdin.flush()

    def frame(self) -> tuple[dict[str, Any], bytes]:
        """The next frame that comes."""
        assert self.process.stdout is not None
        while not self._frames:
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            assert data, self.process.communicate()[1].decode()
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def ask(self, kind: str, payload: bytes = b"", **fields: Any) -> dict[str, Any]:
        """Send an order and take the next frame as its answer."""
        self.order(kind, payload, **fields)
        return self.frame()[0]

    def until(self, kind: str) -> list[tuple[dict[str, Any], bytes]]:
        """All frames up to one of this kind, which is the last of them."""
        frames = [self.frame()]
        while frames[-1][0]["t"] != kind:
            frames.append(self.frame())
        return frames

    def hang_up(self) -> int:
        """Close the line; the exit status of the far end."""
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None and not pipe.closed:
                pipe.close()
        return self.process.wait(20)
