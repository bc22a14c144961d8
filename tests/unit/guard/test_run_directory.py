"""Where a run lives on a host, written so that a crash leaves readable files."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import run_directory, state_directory
from ddp_play.guard.run_directory import HostRun, atomic_write, base_dir, read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path


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
    place.lease.write_bytes(b"torn")
    assert place.lease_seen_s() == 0.0
