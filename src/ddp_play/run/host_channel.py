"""Channel to a host: frames of the guard's protocol over a process (ssh, srun or a local shell)."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.engines.registry import engine_of
from ddp_play.engines.ssh import over_ssh
from ddp_play.guard.protocol import FrameReader, encode
from ddp_play.run.host_program import preamble
from ddp_play.run.ssh_password_prompt import SshPasswordPrompt

if TYPE_CHECKING:
    from ddp_play.engines.route import Route
    from ddp_play.guard.protocol import Frame

READ_SIZE = 1 << 20
STDERR_TAIL = 4096
# Of what a host prints before privilege escalation has succeeded.
HEAD_TAIL = 65536


class Channel(Protocol):
    """Channel to one host. `ddp_play.testing.FakeChannel` is a fake for tests."""

    host: str

    def send(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        """Queue one frame."""

    def receive(self) -> list[Frame]:
        """Frames that have arrived; never blocks."""

    def pump(self) -> None:
        """Write as much of the queue as fits."""

    @property
    def broken(self) -> str:
        """Why the channel has ended; empty while it is open."""

    def close(self, why: str = "closed") -> None:
        """End it; what the host owns stays. `why` is what `broken` says from then on."""


class ProcessChannel:
    """A channel over a child process's stdin and stdout."""

    def __init__(self, route: Route, *, become_password: str = "", ssh_password: str = "") -> None:
        self.host = route.host
        self._engine = engine_of(route)
        self.route = route = self._engine.usable(route)
        self._password = become_password
        self._answered = False
        self._reader = FrameReader(expect_magic=True, limited=True)
        self._out: deque[memoryview] = deque()
        self._stderr = b""
        self._head = b""  # stdout before become has succeeded: its prompt or marker may be in it
        self._noise = b""  # stdout before the magic line: what a login shell printed
        self._broken = ""
        self.num_bytes = 0  # received on stdout and stderr
        self._prompt = SshPasswordPrompt(ssh_password) if ssh_password and over_ssh(route) else None
        command = [*route.argv, route.command]
        self._process = subprocess.Popen(
            self._prompt.command(command) if self._prompt else command,
            env=self._prompt.environment() if self._prompt else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C must not end the channel: the stop request is sent over it
        )
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None  # noqa: S101 - for the type checker: all three are pipes
            os.set_blocking(stream.fileno(), False)
        self._ready = not route.become_success
        if self._ready:
            self._queue(preamble())

    # -- file descriptors, for the one selector that waits for all channels ---------------------------
    def read_fds(self) -> tuple[int, ...]:
        """Descriptors to wait on for reading."""
        assert self._process.stdout is not None  # noqa: S101
        assert self._process.stderr is not None  # noqa: S101
        if self._broken:
            return ()
        terminal = (self._prompt.fd,) if self._prompt else ()
        return (self._process.stdout.fileno(), self._process.stderr.fileno(), *terminal)

    def write_fd(self) -> int | None:
        """The descriptor to wait on for writing, when something is queued."""
        assert self._process.stdin is not None  # noqa: S101
        return self._process.stdin.fileno() if self._out and not self._broken else None

    @property
    def broken(self) -> str:
        return self._broken

    @property
    def num_queued(self) -> int:
        """Bytes that wait to be written."""
        return sum(map(len, self._out))

    @property
    def reached(self) -> bool:
        """Has the host itself answered? Else its engine gave no connection to it."""
        return self._reader.started or not self._engine.no_connection(self.route, self._process.poll())

    def output(self) -> str:
        """End of what the host printed that is no frame: on stderr, or else on stdout if no frame followed."""
        noise = b"" if self._reader.started else self._noise
        return (self._stderr.strip() or noise.strip()).decode("utf-8", "replace")

    def send(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        self._queue(encode(kind, payload, **fields))

    def _queue(self, data: bytes) -> None:
        if not self._broken:
            self._out.append(memoryview(data))

    def pump(self) -> None:
        if not self._ready or self._broken:
            return
        assert self._process.stdin is not None  # noqa: S101
        try:
            while self._out:
                written = os.write(self._process.stdin.fileno(), self._out[0][:READ_SIZE])
                self._out[0] = self._out[0][written:]
                if not self._out[0]:
                    self._out.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._end()

    def receive(self) -> list[Frame]:
        if self._broken:
            return []
        if self._prompt:
            self._prompt.answer()
        self._read_stderr()
        data = b"" if self.broken else self._read(self._process.stdout)
        frames: list[Frame] = []
        if data:
            if not self._ready:
                data = self._become(data)
            if not self._reader.started:
                self._noise = (self._noise + data)[-STDERR_TAIL:]
            frames = self._reader.feed(data) if data else []
        if data is None:
            self._end()
        return frames

    def _read(self, stream: Any) -> bytes | None:
        """The available bytes, b"" if there are none, None at the end of the stream."""
        try:
            data = os.read(stream.fileno(), READ_SIZE)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        self.num_bytes += len(data)
        return data or None

    def _read_stderr(self) -> None:
        data = self._read(self._process.stderr)
        if data:
            self._stderr = (self._stderr + data)[-STDERR_TAIL:]
            if not self._ready:
                self._answer_prompt(self._stderr)

    def _become(self, data: bytes) -> bytes:
        """Wait until become has succeeded, then send the loader's input."""
        marker = self.route.become_success.encode()
        self._head = (self._head + data)[-max(HEAD_TAIL, len(data)) :]
        self._answer_prompt(self._head)
        if marker not in self._head or self.broken:
            return b""
        self._ready = True
        rest = self._head.split(marker, 1)[1]
        self._head = b""
        self._out.appendleft(memoryview(preamble()))
        self.pump()
        return rest

    def _answer_prompt(self, text: bytes) -> None:
        """Answer the prompt once. A second one means that the password is wrong, and sudo would wait for another."""
        prompt = self.route.become_prompt.encode()
        if not prompt or text.count(prompt) <= self._answered:
            return
        if self._answered or not self._password:
            self.close(f"{'Incorrect' if self._answered else 'Missing'} become password")
            return
        self._answered = True
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            os.write(self._process.stdin.fileno(), self._password.encode() + b"\n")
        self._password = ""

    def _end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)  # stdout may end a moment before the last output on stderr arrives
        self._read_stderr()
        if not self._reader.started:
            self._noise = (self._noise + (self._read(self._process.stdout) or b""))[-STDERR_TAIL:]
        words = self.output().splitlines()
        code = self._process.poll()
        self._broken = words[-1] if words else f"the channel ended (exit code {code})"
        self.close()

    def close(self, why: str = "closed") -> None:
        self._broken = self._broken or why
        if self._prompt:
            self._prompt.close()
            self._prompt = None
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        if self._process.poll() is None:
            self._engine.end(self._process)


def wait_any(channels: list[ProcessChannel], timeout_s: float) -> None:
    """Sleep until some channel can make progress, at most `timeout_s`; queued frames are written."""
    for channel in channels:
        channel.pump()
    with selectors.DefaultSelector() as selector:
        for channel in channels:
            for fd in channel.read_fds():
                selector.register(fd, selectors.EVENT_READ)
            write = channel.write_fd()
            if write is not None:
                selector.register(write, selectors.EVENT_WRITE)
        if not selector.get_map():
            time.sleep(min(timeout_s, 0.05))
            return
        selector.select(timeout_s)
    for channel in channels:
        channel.pump()
