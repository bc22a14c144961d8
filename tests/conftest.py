"""Guards around every test: no network, no state of the developer's own, no real ansible-runner unless marked."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import secrets
import signal
import socket
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from ansible.plugins.loader import init_plugin_loader

if TYPE_CHECKING:
    from collections.abc import Iterator

# A shell ignores SIGINT in what it starts in the background, and every program of a test would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests that need the real world say so; the guards leave them alone.
EXEMPT = ("dist", "lab", "vm", "gpu", "runner", "slurm")

# A report for each of the many runs would take a second of a processor; tests of reports at a run's end allow them.
os.environ["DDP_PLAY_REPORT"] = "no"

# Where ddp-play keeps its things when nobody tells it otherwise; taken before any test changes the environment.
REAL_STATE = (
    str(Path(os.environ.get("DDP_PLAY_HOME") or "~/.local/state/ddp-play").expanduser()),
    "/var/lib/ddp-play",
)
FILE_EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.listdir", "os.scandir"})
_watching = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in FILE_EVENTS and arguments and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.fsdecode(arguments[0])
        if path.startswith(REAL_STATE):
            pytest.fail(f"the test touches the real state directory: {event} {path}")


sys.addaudithook(_audit)

# Before a test imports a plugin: else Ansible's loader finds no filter of a collection that Python has imported first.
init_plugin_loader()


@pytest.fixture(autouse=True)
def guards(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Every test but the exempt ones runs behind these."""
    if any(request.node.get_closest_marker(name) for name in EXEMPT):
        yield
        return
    _own_places(monkeypatch, tmp_path_factory.mktemp("places"))
    _no_network(monkeypatch)
    _no_runner(monkeypatch)
    _locks_of_nfs(monkeypatch)
    with _watched():
        yield


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """What a test or the code under test sets is gone with the test: preparing a host sets it for its process."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


def _own_places(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """HOME, the controller's state and the host's state are directories of this test."""
    for name in [name for name in os.environ if name.startswith(("DDP_PLAY_", "ANSIBLE_", "XDG_", "DOCKER_"))]:
        monkeypatch.delenv(name)
    for name, where in (("HOME", "home"), ("DDP_PLAY_HOME", "state"), ("DDP_PLAY_HOST_DIR", "host")):
        (root / where).mkdir()
        monkeypatch.setenv(name, str(root / where))
    monkeypatch.setenv("DDP_PLAY_REPORT", "no")
    monkeypatch.setattr("ddp_play.guard.leases.SCOPE", f"ddp-play-test-{secrets.token_hex(8)}")
    monkeypatch.setattr("ddp_play.guard.file_leases.DIRECTORY", root / "file-leases")
    monkeypatch.setattr("ddp_play.guard.run_directory.secrets_base", lambda: root / "secrets")
    monkeypatch.setattr("ddp_play.guard.secret_files.secrets_base", lambda: root / "secrets")


@contextlib.contextmanager
def _watched() -> Iterator[None]:
    global _watching  # noqa: PLW0603 - an audit hook cannot be taken out again, only told to look away
    _watching = True
    try:
        yield
    finally:
        _watching = False


def _locks_of_nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """NFSv4 refuses a lock that the file's mode does not allow: shared without reading, exclusive without writing."""
    flock = fcntl.flock

    def checked(file: Any, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(file if isinstance(file, int) else file.fileno()).st_mode):
            return flock(file, operation)  # only local ones are locked: nobody can open a directory for writing
        mode = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        refused = {fcntl.LOCK_SH: os.O_WRONLY, fcntl.LOCK_EX: os.O_RDONLY}
        if any(operation & lock and mode == without for lock, without in refused.items()):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", checked)


def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    real = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}
    resolve = socket.getaddrinfo

    def checked(name: str) -> Any:
        def call(self: socket.socket, address: Any) -> Any:
            if self.family != socket.AF_UNIX and not is_local(str(address[0])):
                pytest.fail(f"the test opens a network connection to {address}")
            return real[name](self, address)

        return call

    def lookup(host: Any, *arguments: Any, **options: Any) -> Any:
        name = os.fsdecode(host or "")
        if name and not is_local(name) and name != socket.gethostname():
            pytest.fail(f"the test looks up {name}")
        return resolve(host, *arguments, **options)

    for name in real:
        monkeypatch.setattr(socket.socket, name, checked(name))
    monkeypatch.setattr(socket, "getaddrinfo", lookup)


def is_local(address: str) -> bool:
    """Does this name or address stay on this machine?"""
    if address == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False


def _no_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> None:
        pytest.fail("the test starts a real ansible-runner; mark it `runner` or use FakePlaybookRunner")

    monkeypatch.setattr("ansible_runner.run", refuse)
