"""The module that lets a host take no new runs: it says whether that is a change, and check mode changes nothing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_drain

from tests.unit.modules.stand_in import StandIn, play


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ddp-play" / "drain.json"
    monkeypatch.setattr(host_drain, "MARK", path)
    return path


def answer(monkeypatch: pytest.MonkeyPatch, *, check: bool = False, **params: Any) -> dict[str, Any]:
    stand_in = StandIn(**params)
    stand_in.check_mode = check
    return play(monkeypatch, host_drain, stand_in)


def test_a_host_is_drained_once_and_opened_once(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time()
    first = answer(monkeypatch, reason="reboot by kim", seconds=60)
    fields = json.loads(mark.read_text())
    assert (first["changed"], first["failed"], fields["reason"]) == (True, False, "reboot by kim")
    assert before + 60 <= fields["until"] == first["until"] <= time.time() + 60
    assert f"{mark.stat().st_mode & 0o777:o}" == "644", "every user's guard reads it"
    assert not answer(monkeypatch, reason="reboot by kim", seconds=600)["changed"]
    assert json.loads(mark.read_text())["until"] > before + 500, "the end moves"
    assert answer(monkeypatch, reason="reboot by kim", state="open")["changed"]
    assert not answer(monkeypatch, state="open")["changed"]
    assert list(mark.parent.iterdir()) == []


def test_a_mark_of_an_earlier_boot_is_removed_without_being_a_change(
    mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch)
    monkeypatch.setattr(host_drain, "boot_id", lambda: "the next boot")
    assert not answer(monkeypatch, state="open")["changed"]
    assert not mark.exists()


def test_check_mode_changes_nothing(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, check=True)["changed"]
    assert not mark.exists()
    answer(monkeypatch)
    assert answer(monkeypatch, check=True, state="open")["changed"]
    assert mark.exists()


def test_a_directory_that_takes_nothing_is_a_failure_with_the_path(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark.parent.touch()
    failed = answer(monkeypatch)
    assert failed["failed"]
    assert str(mark) in failed["msg"]


def test_a_mark_of_somebody_else_is_neither_replaced_nor_removed(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, reason="reboot by kim", seconds=7200)
    before = mark.read_text()
    failed = answer(monkeypatch, reason="reboot by pat")
    assert (failed["failed"], "reboot by kim" in failed["msg"]) == (True, True)
    assert not answer(monkeypatch, reason="reboot by pat", state="open")["changed"]
    assert mark.read_text() == before


def test_every_user_can_read_the_mark_whatever_the_umask(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o077)
    try:
        answer(monkeypatch)
    finally:
        os.umask(before)
    assert [f"{path.stat().st_mode & 0o777:o}" for path in (mark.parent, mark)] == ["755", "644"]
