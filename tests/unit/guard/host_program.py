"""The program as it runs on a host, with a state directory of the test's own."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ddp_play.guard import loader
from ddp_play.guard.protocol import FrameReader, encode
from ddp_play.run import host_program

if TYPE_CHECKING:
    from pathlib import Path


@functools.cache
def built(zipped: bytes) -> tuple[str, bytes]:
    """Name and content of the file that the loader stores: it compiles all sources, and tests start many programs."""
    return loader.file_name(hashlib.sha256(zipped).hexdigest()), loader.build(zipped)


def start(root: Path, *arguments: str, wrap: tuple[str, ...] = (), zipped: bytes = b"") -> subprocess.Popen[bytes]:
    """The program as a controller starts it, with pipes; its files are below `root`.

    `wrap`: a command that starts it. `zipped`: another program than this version's.
    """
    zipped = zipped or host_program.program()
    name, content = built(zipped)
    if not (root / name).exists():
        (root / name).write_bytes(content)
        (root / name).chmod(0o600)
    argv = [*wrap, "sh", "-c", host_program.shell_command(sys.executable, *arguments)]
    env = {**os.environ, "DDP_PLAY_HOST_DIR": str(root)}
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    assert process.stdin is not None
    process.stdin.write(host_program.framed(zipped))
    process.stdin.flush()
    return process


class Line:
    """The controller's end of a channel: orders out, frames in."""

    def __init__(self, root: Path, *, wrap: tuple[str, ...] = (), zipped: bytes = b"") -> None:
        self.process = start(root, "channel", wrap=wrap, zipped=zipped)
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
        """Send an order and take the next frame as its answer, unless it is a heartbeat from meanwhile."""
        self.order(kind, payload, **fields)
        answer = self.frame()[0]
        while answer["t"] == "beat" and kind != "beat":
            answer = self.frame()[0]
        return answer

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
