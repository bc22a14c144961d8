"""Where a run lives on a host, written so that a crash leaves readable files."""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import pwd
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import run_directory, state_directory
from ddp_play.guard.run_directory import HostRun, atomic_write, base_dir, read_json, write_json


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_json(path, {"n": -1, "pad": ""})
    done = threading.Event()

    def write() -> None:
        for number in range(300):
            write_json(path, {"n": number, "pad": "x" * (number * 100 % 20000)})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    last = -1
    while not done.is_set():
        value = read_json(path)
        assert value is not None
        assert value["n"] >= last
        last = value["n"]
    writer.join()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    atomic_write(path, b"old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o644])
def test_the_mode_is_exact(tmp_path: Path, mode: int) -> None:
    atomic_write(tmp_path / "x", b"y", mode)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_a_file_is_its_users_alone_unless_a_mode_is_given(tmp_path: Path) -> None:
    atomic_write(tmp_path / "x", b"y")
    write_json(tmp_path / "z", {})
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "xz"] == [0o600, 0o600]


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', b"[1]", b"\xff\xfe", b"null"])
def test_no_document_is_none(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    assert read_json(tmp_path / "x") is None


def test_values_come_back(tmp_path: Path) -> None:
    value = {"text": "größe\n\ud83d", "bytes": os.fsdecode(b"\xe9"), "none": None}
    write_json(tmp_path / "x", value)
    assert read_json(tmp_path / "x") == value


@pytest.mark.parametrize(
    ("environment", "uid", "where"),
    [
        ({"DDP_PLAY_HOST_DIR": "/tmp/mine"}, 0, "/tmp/mine"),
        ({}, 0, "/srv/of-root"),
        ({"HOME": "/home/me"}, 1000, "/home/me/.local/state/ddp-play/host"),
        ({"XDG_STATE_HOME": "/state"}, 1000, "/state/ddp-play/host"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "state"}, 1000, "/home/me/.local/state/ddp-play/host"),
    ],
)
def test_base_directory(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], uid: int, where: str) -> None:
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    monkeypatch.setattr(state_directory, "OF_ROOT", "/srv/of-root")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    assert str(base_dir()) == where


def test_two_names_of_one_machine_do_not_meet() -> None:
    one, two = HostRun.at("r1", 1, "a"), HostRun.at("r1", 1, "b")
    assert one.root != two.root
    assert one.secrets != two.secrets
    assert HostRun.at("r1", 2, "a").root != one.root


def test_paths_of_a_place() -> None:
    place = HostRun.at("calm-otter-1", 2, "h1")
    assert place.root == base_dir() / "runs" / "calm-otter-1" / "2.h1"
    assert place.log(3) == place.root / "logs" / "rank-3.log"
    assert place.rank_dir(3) == place.root / "rank-3"
    assert place.secrets == run_directory.secrets_base() / "calm-otter-1.2.h1"


def test_an_attempt_stays_where_an_earlier_version_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system of all hosts; a new one is put into the state directory."""
    monkeypatch.setattr(state_directory, "earlier", lambda: str(tmp_path / "old"))
    assert run_directory.bases() == [base_dir(), tmp_path / "old"]
    new, old = (base / "runs" / "night" / "1.h1" for base in run_directory.bases())
    assert HostRun.at("night", 1, "h1").root == new
    old.mkdir(parents=True)
    assert HostRun.at("night", 1, "h1").root == old
    new.mkdir(parents=True)
    assert HostRun.at("night", 1, "h1").root == new


def test_secrets_go_around_a_name_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # conftest's own base
    monkeypatch.setattr(run_directory, "MEMORY", tmp_path)
    usual = tmp_path / f"ddp-play-{os.geteuid()}"
    assert run_directory.secrets_base() == usual
    assert not usual.exists()
    usual.mkdir(mode=0o700)
    assert run_directory.secrets_base() == usual
    usual.chmod(0o777)
    other = run_directory.secrets_base()
    assert other.name.startswith(usual.name + ".")
    assert run_directory.secrets_base() == other


def test_orders(tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    place.control.mkdir()
    assert place.ordered("stop") is None
    place.order("go")
    place.order("stop", {"reason": "x"})
    assert place.ordered("go") == {}
    assert place.ordered("stop") == {"reason": "x"}


def test_the_lease_holds_the_newest_time_that_a_controller_had_heard(tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    assert place.lease_seen_s() == 0.0
    place.renew_lease(1234.5678)
    assert place.lease_seen_s() == 1234.568
    place.lease.write_bytes(b"")
    assert place.lease_seen_s() == 0.0
    place.lease.write_bytes(b"torn")
    assert place.lease_seen_s() == 0.0


def test_an_order_that_is_taken_back_is_gone(tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    place.control.mkdir()
    place.order("frozen")
    place.take_back("frozen")
    assert place.ordered("frozen") is None
    place.take_back("frozen")


def test_names_of_a_place() -> None:
    place = HostRun.at("night.0123456789abcdef", 12, "h1.example")
    assert (place.run_key, place.run_id, place.attempt) == ("night.0123456789abcdef", "night", 12)
    assert HostRun(place.root.parent / "elsewhere").attempt == 0
    assert place.agent_log == place.logs / "torchrun.log"


def test_users_have_names_where_the_host_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_directory.user_name(0) == "root"

    def unknown(uid: int) -> Any:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert run_directory.user_name(4711) == "user 4711"


def test_a_place_is_attended_by_other_processes_too_and_as_long_as_they_live(tmp_path: Path) -> None:
    """`gc` removes the directories of runs that nobody attends."""
    place = HostRun(tmp_path / "new" / "1.h1")
    assert not place.attended(), "nobody has been there"
    program = (
        f"import sys; sys.path.insert(0, {str(Path(run_directory.__file__).parents[1])!r})\n"
        "from pathlib import Path\nfrom guard.run_directory import HostRun\n"
        f"held = HostRun(Path({str(place.root)!r})).attend(); print(flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert place.attended()
        assert place.root.stat().st_mode & 0o777 == 0o700
        other.kill()
        other.wait(10)
        assert not place.attended()


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_a_place_is_attended_on_a_disk_that_takes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """With the file of an earlier channel; without one it is an error."""
    place, real = HostRun(tmp_path), builtins.open

    def full(path: str, mode: str = "r") -> Any:
        if mode != "r":
            raise OSError(number, "cannot")
        return real(path)

    monkeypatch.setattr(builtins, "open", full)
    with pytest.raises(FileNotFoundError):
        place.attend()
    (tmp_path / "channel.lock").touch()
    with place.attend():
        assert place.attended()


def test_a_lock_that_cannot_be_asked_for_counts_as_attended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unknown is not removed."""
    (tmp_path / "channel.lock").touch()

    def fails(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    assert HostRun(tmp_path).attended()


def test_a_place_that_cannot_be_attended_is_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def fails(handle: Any, _operation: int) -> None:
        asked.append(handle)
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fails)
    with pytest.raises(OSError, match="No locks available"):
        HostRun(tmp_path).attend()
    assert [handle.closed for handle in asked] == [True]


def test_no_other_user_can_list_the_runs_in_a_state_directory_that_all_can_enter(tmp_path: Path) -> None:
    """Such as one that an administrator made for `ddp_state_dir`; the names of runs hold their tokens."""
    tmp_path.chmod(0o755)
    place = HostRun(tmp_path / "runs" / "calm-otter-1.0123456789abcdef" / "1.h1")
    before = os.umask(0o022)
    try:
        with place.attend():
            pass
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (place.root, *list(place.root.parents)[:3])]
    assert modes == [0o700, 0o700, 0o700, 0o755]
