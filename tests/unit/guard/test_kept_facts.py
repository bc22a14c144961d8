"""Kept answers: which files count, and that a file that is not ours or not whole is as none."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import kept_facts
from ddp_play.guard.kept_facts import KeptFacts, is_settled, stamp

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = {"version": "3.11.2"}


@pytest.fixture
def kept(tmp_path: Path) -> KeptFacts:
    """One answer, to `a`."""
    made = KeptFacts(str(tmp_path), "boot-1")
    made.keep(["a"], ANSWER, [["/x"]])
    return made


def test_an_answer_is_kept_for_its_question_alone(kept: KeptFacts, tmp_path: Path) -> None:
    assert kept.find(["a"]) == (ANSWER, [["/x"]])
    assert kept.find(["b"]) is None
    assert KeptFacts(str(tmp_path), "boot-1").find(["a"]) == (ANSWER, [["/x"]])
    kept.keep(["a"], {"version": "4"}, [])
    assert kept.find(["a"]) == ({"version": "4"}, [])
    assert [(path.name, oct(path.stat().st_mode & 0o777)) for path in tmp_path.iterdir()] == [("facts.json", "0o600")]


def test_a_reboot_forgets(kept: KeptFacts, tmp_path: Path) -> None:
    later = KeptFacts(str(tmp_path), "boot-2")
    assert later.find(["a"]) is None
    later.keep(["b"], ANSWER, [])
    assert kept.find(["a"]) is None


def test_the_format_of_another_version_is_ignored(kept: KeptFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_facts, "FORMAT", kept_facts.FORMAT + 1)
    assert kept.find(["a"]) is None
    kept.keep(["a"], ANSWER, [])
    assert kept.find(["a"]) is not None


def test_a_file_that_is_not_whole_is_ignored_and_replaced(kept: KeptFacts, tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    whole = path.read_bytes()
    broken = [whole[:size] for size in range(len(whole))]
    broken += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    for data in (*broken, whole + b"x", b"\0" * len(whole), b"{}", b"[" * 100_000):
        path.write_bytes(data)
        assert kept.find(["a"]) is None, data
    kept.keep(["b"], ANSWER, [])
    assert kept.find(["b"]) == (ANSWER, [])


@pytest.mark.parametrize("mode", [0o640, 0o602, 0o666])
def test_a_file_that_others_can_open_is_ignored(kept: KeptFacts, tmp_path: Path, mode: int) -> None:
    (tmp_path / "facts.json").chmod(mode)
    assert kept.find(["a"]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")
def test_a_file_of_another_user_is_ignored(kept: KeptFacts, tmp_path: Path) -> None:
    os.chown(tmp_path / "facts.json", 12345, 12345)
    assert kept.find(["a"]) is None


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_what_is_no_file_is_ignored_and_nobody_waits_for_it(kept: KeptFacts, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "facts.json"
    path.rename(tmp_path / "other")
    if kind == "link":
        path.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert kept.find(["a"]) is None
    kept.keep(["a"], ANSWER, [])
    assert (kept.find(["a"]) is None) == (kind == "directory")


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path: Path) -> None:
    for directory in (tmp_path / "gone", "/proc"):
        kept = KeptFacts(str(directory), "boot-1")
        kept.keep(["a"], ANSWER, [])
        assert kept.find(["a"]) is None
    assert list(tmp_path.iterdir()) == []


def test_the_file_stays_small(kept: KeptFacts, tmp_path: Path) -> None:
    for number in range(20):
        kept.keep([number], ANSWER, [])
    assert [number for number in range(20) if kept.find([number])] == list(range(12, 20))
    kept.keep(["large"], {"text": "x" * kept_facts.MAX_BYTES}, [])
    assert kept.find(["large"]) is None
    assert (tmp_path / "facts.json").stat().st_size < kept_facts.MAX_BYTES


def change(path: Path, how: str) -> None:
    """One change to a directory with a file `a`, with its old times where a program can give them back."""
    before = (path / "a").stat()
    if how == "new":
        (path / "b").touch()
    elif how == "gone":
        (path / "a").unlink()
    elif how == "mode":
        (path / "a").chmod(0o600)
    elif how == "replaced":
        shutil.copy2(path / "a", path / "copy")
        (path / "copy").rename(path / "a")
    elif how == "written":
        (path / "a").write_text("2")
        os.utime(path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("how", ["nothing", "new", "gone", "mode", "replaced", "written"])
def test_every_change_is_seen(tmp_path: Path, how: str) -> None:
    (tmp_path / "a").write_text("1")
    files = [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "missing"), str(tmp_path / "a" / "below")]
    before = stamp(files)
    time.sleep(0.02)  # the resolution of a file's time
    change(tmp_path, how)
    assert (stamp(files) == before) == (how == "nothing")


@pytest.mark.parametrize("files", [["relative"], [""], ["/x"] * (kept_facts.MAX_FILES + 1), ["/nul\0"]])
def test_what_cannot_be_seen_has_no_stamp(files: list[str]) -> None:
    assert stamp(files) is None


def test_a_link_that_leads_nowhere_has_no_stamp(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert stamp([str(tmp_path / "loop")]) is None


def test_a_file_of_just_now_is_not_relied_on(tmp_path: Path) -> None:
    (tmp_path / "new").touch()
    os.utime(tmp_path / "new", (0, 0))  # the change of its inode counts
    found: Any = stamp([str(tmp_path / "new"), "/missing"])
    now = (tmp_path / "new").stat().st_ctime
    assert not is_settled(found, now - 1)
    assert not is_settled(found, now + 1)
    assert is_settled(found, now + 3)
