"""Guards that lock files, as earlier versions do, and guards of this version respect each other's leases."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import file_leases, leases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a guard of an earlier version does: it creates the directory and the file, and locks the file until it ends.
EARLIER = """
import fcntl, os, sys
path = sys.argv[1]
os.makedirs(os.path.dirname(path), exist_ok=True)
os.chmod(os.path.dirname(path), 0o1777)
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("taken")
print("held", flush=True)
sys.stdin.read()
"""


def earlier_guard(name: str) -> subprocess.Popen[bytes]:
    path = file_leases.directory_of(name) / name
    argv = [sys.executable, "-I", "-S", "-c", EARLIER, str(path)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def held(guard: subprocess.Popen[bytes]) -> bool:
    assert guard.stdout is not None
    return guard.stdout.readline() == b"held\n"


@pytest.fixture(params=["slot-0", "port-1"])
def name(request: pytest.FixtureRequest) -> str:
    """A lease of a slot, and one of a port."""
    return str(request.param)


@pytest.fixture
def holder(name: str) -> Iterator[subprocess.Popen[bytes]]:
    """An earlier version's guard that holds the lease."""
    with earlier_guard(name) as guard:
        assert held(guard)
        yield guard
        guard.kill()


def open_below(*directories: Path) -> list[str]:
    """Files in these directories that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(tuple(map(str, directories)))]


def scope(name: str) -> str:
    return "" if name.startswith("port-") else leases.slot_scope()


def test_a_lease_of_an_earlier_version_is_honoured_until_it_ends(name: str, holder: subprocess.Popen[bytes]) -> None:
    assert leases.hold(name, scope(name)) is None
    assert leases.hold(name, scope(name)) is None, "the refusal left no socket behind"
    assert f"process {holder.pid} of" in leases.holder(name, scope(name))
    assert "0 of 1 slots free" in leases.slots_problem([name], 1, scope(name))
    holder.kill()
    holder.wait()
    assert leases.holder(name, scope(name)) == ""
    with leases.hold(name, scope(name)) or pytest.fail("the lease is free"):
        pass


def test_an_earlier_version_sees_a_lease_of_this_one(name: str) -> None:
    file_leases.directory_of(name).mkdir(mode=0o777)
    lease = leases.hold(name, scope(name))
    assert lease is not None
    with earlier_guard(name) as refused:
        assert refused.communicate(timeout=20)[1] == b"taken\n"
    lease.close()
    with earlier_guard(name) as guard:
        assert held(guard)
        guard.kill()


def test_a_lease_that_is_held_twice_by_file_and_socket_is_asked_by_socket(name: str) -> None:
    file_leases.directory_of(name).mkdir()
    with leases.hold(name, scope(name)) or pytest.fail("the lease is free"):
        assert f"process {os.getpid()} of" in leases.holder(name, scope(name))


def test_the_mode_of_the_file_lets_other_users_read_it_whatever_the_umask_is(name: str) -> None:
    directory = file_leases.directory_of(name)
    directory.mkdir()
    os.umask(0o077)
    with leases.hold(name, scope(name)) or pytest.fail("the lease is free"):
        assert (directory / name).stat().st_mode & 0o777 == 0o644


def test_a_directory_that_a_neighbour_links_elsewhere_is_not_entered(name: str, tmp_path: Path) -> None:
    target = tmp_path / "of-root"
    target.mkdir()
    file_leases.directory_of(name).symlink_to(target)
    with leases.hold(name, scope(name)) or pytest.fail("the lease is free"):
        assert list(target.iterdir()) == []
        assert leases.holder(name, scope(name)) != ""


@pytest.mark.parametrize("kind", ["link", "hard link", "directory", "fifo"])
def test_what_no_version_locks_blocks_nobody(name: str, tmp_path: Path, kind: str) -> None:
    directory = file_leases.directory_of(name)
    directory.mkdir()
    planted, secret = directory / name, tmp_path / "secret"
    secret.touch(mode=0o600)
    make: dict[str, Callable[[], None]] = {
        "link": lambda: planted.symlink_to(secret),
        "hard link": lambda: planted.hardlink_to(secret),
        "directory": planted.mkdir,
        "fifo": lambda: os.mkfifo(planted),
    }
    make[kind]()
    assert file_leases.lock(name) is None
    assert open_below(tmp_path, directory) == []
    assert leases.holder(name, scope(name)) == ""
    with leases.hold(name, scope(name)) or pytest.fail("the lease is free"):
        assert secret.stat().st_mode & 0o777 == 0o600


def test_a_directory_that_is_none_holds_nobody_up(name: str) -> None:
    os.mkfifo(file_leases.directory_of(name))
    assert file_leases.lock(name) is None


def test_a_question_leaves_the_file_unlocked(name: str) -> None:
    directory = file_leases.directory_of(name)
    directory.mkdir()
    (directory / name).touch()
    assert not file_leases.is_locked(name)
    with (directory / name).open("r+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert file_leases.is_locked(name)
    assert not file_leases.is_locked(name)


@pytest.mark.parametrize(
    ("lines", "pid"),
    [
        (["1: FLOCK ADVISORY WRITE 4711 00:1f:{inode} 0 EOF"], 4711),
        (["1: POSIX ADVISORY WRITE 1 00:1f:{inode} 0 EOF", "2: FLOCK ADVISORY WRITE 12 00:1f:{inode} 0 EOF"], 12),
        (["1: FLOCK ADVISORY WRITE 1 00:1f:1{inode} 0 EOF", "1: -> FLOCK ADVISORY WRITE 2 00:1f:{inode} 0 EOF"], 0),
        (["1: FLOCK ADVISORY WRITE -1 00:1f:{inode} 0 EOF"], 0),
        (["1: FLOCK ADVISORY WRITE 4711", "2: FLOCK ADVISORY WRITE 12 00:1f:{inode}"], 12),
        (["1: FLOCK ADVISORY", "2: FLOCK ADVISORY WRITE 0 00:1f:{inode} 0 EOF"], 0),
        ([], 0),
        (None, 0),
    ],
)
def test_the_holder_is_who_the_kernel_lists(
    name: str, monkeypatch: pytest.MonkeyPatch, lines: list[str] | None, pid: int
) -> None:
    """It lists locks of other pid namespaces with the pid 0 or -1."""
    directory = file_leases.directory_of(name)
    directory.mkdir()
    (directory / name).touch()
    inode = (directory / name).stat().st_ino

    def read_text(_path: Path) -> str:
        if lines is None:
            raise PermissionError(13, "Permission denied")
        return "\n".join(lines).format(inode=inode)

    monkeypatch.setattr(Path, "read_text", read_text)
    assert file_leases.holder_pid(name) == pid
    assert open_below(directory) == []


def test_ports_are_of_the_machine_and_slots_of_the_directory_that_stands_for_a_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", "/hosts/one")
    assert file_leases.directory_of("slot-0") == Path("/hosts/one/leases")
    assert file_leases.directory_of("port-1") == file_leases.DIRECTORY
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    assert file_leases.directory_of("slot-0") == file_leases.DIRECTORY


def test_a_holder_that_the_kernel_does_not_list(name: str, holder: subprocess.Popen[bytes]) -> None:
    assert holder.pid == file_leases.holder_pid(name)
    assert file_leases.holder_pid("slot-9") == 0
    assert leases.holder("slot-9", leases.slot_scope()) == ""


def test_a_lock_of_another_pid_namespace_counts(
    name: str, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert holder.poll() is None
    monkeypatch.setattr(file_leases, "holder_pid", lambda _name: 0)
    assert "earlier versions of ddp-play" in leases.holder(name, scope(name))
