"""The module that drains, closes and opens a host: who it waits for, whose mark it leaves alone, and check mode."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import reboot_occupants
from ansible_collections.ddp.play.plugins.modules import host_drain

from tests.unit.modules.stand_in import StandIn, play

BUSY = "1 container running: db (postgres:16)"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "drain.json"
    monkeypatch.setattr(host_drain, "MARK", path)
    monkeypatch.setattr(reboot_occupants, "read", list)
    return path


def answer(monkeypatch: pytest.MonkeyPatch, *, check: bool = False, **params: Any) -> dict[str, Any]:
    stand_in = StandIn(**params)
    stand_in.check_mode = check
    return play(monkeypatch, host_drain, stand_in)


def occupied(monkeypatch: pytest.MonkeyPatch, mark: Path, *looks: list[str]) -> list[bool]:
    """What the looks find, one after the other; the list that is returned tells whether the host was closed then."""
    closed: list[bool] = []

    def read() -> list[str]:
        closed.append(json.loads(mark.read_text())["closed"])
        return looks[len(closed) - 1]

    monkeypatch.setattr(reboot_occupants, "read", read)
    return closed


def test_a_host_is_drained_once_and_opened_once(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time()
    first = answer(monkeypatch, reason="reboot by kim", seconds=60)
    fields = json.loads(mark.read_text())
    assert (first["changed"], first["failed"], first["state"]) == (True, False, "drained")
    assert (fields["reason"], fields["closed"]) == ("reboot by kim", False)
    assert before + 60 <= fields["until"] == first["until"] <= time.time() + 60
    assert not answer(monkeypatch, reason="reboot by kim", seconds=600)["changed"]
    assert json.loads(mark.read_text())["until"] > before + 500, "the end moves"
    opened = answer(monkeypatch, reason="reboot by kim", state="open")
    assert (opened["changed"], opened["state"]) == (True, "open")
    assert not answer(monkeypatch, state="open")["changed"]
    assert list(mark.parent.iterdir()) == []


def test_a_host_where_nobody_works_is_closed(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at twice: a restart of a run may begin between the first look and the end of restarts."""
    closed = occupied(monkeypatch, mark, [], [])
    found = answer(monkeypatch, state="closed", reason="reboot by kim", closed_seconds=900)
    assert (found["state"], found["busy"], closed) == ("closed", [], [False, True])
    fields = json.loads(mark.read_text())
    assert fields["closed"] is True
    assert 890 < fields["until"] - time.time() <= 900


@pytest.mark.parametrize("looks", [([BUSY],), ([], [BUSY])], ids=["at the first look", "after the mark"])
def test_a_busy_host_stays_drained_for_a_short_time(
    mark: Path, monkeypatch: pytest.MonkeyPatch, looks: tuple[list[str], ...]
) -> None:
    occupied(monkeypatch, mark, *looks)
    found = answer(monkeypatch, state="closed", reason="reboot by kim", seconds=60)
    assert (found["state"], found["busy"], found["failed"]) == ("drained", [BUSY], False)
    fields = json.loads(mark.read_text())
    assert fields["closed"] is False
    assert fields["until"] - time.time() <= 60


def test_a_busy_host_is_closed_on_request(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = occupied(monkeypatch, mark, [BUSY], [BUSY])
    found = answer(monkeypatch, state="closed", reason="reboot by kim", disrupt=True)
    assert (found["state"], looked) == ("closed", [])


def test_check_mode_changes_nothing(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, check=True)["changed"]
    assert not mark.exists()
    answer(monkeypatch)
    assert answer(monkeypatch, check=True, state="open")["changed"]
    assert mark.exists()


def test_a_place_that_takes_nothing_is_a_failure_with_the_path(
    mark: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "none" / mark.name
    monkeypatch.setattr(host_drain, "MARK", path)
    failed = answer(monkeypatch)
    assert failed["failed"]
    assert str(path) in failed["msg"]


def test_a_mark_of_somebody_else_is_neither_replaced_nor_removed(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, reason="reboot by kim", seconds=7200)
    before = mark.read_text()
    for state in ("drained", "closed"):
        failed = answer(monkeypatch, state=state, reason="reboot by pat")
        assert (failed["failed"], "reboot by kim" in failed["msg"]) == (True, True)
        assert "ddp-play reboot -i INVENTORY --open --limit HOST" in failed["msg"]
    left = answer(monkeypatch, reason="reboot by pat", state="open")
    assert (left["changed"], left["state"]) == (False, "drained")
    assert mark.read_text() == before
    assert answer(monkeypatch, reason="reboot by pat", state="open", any=True)["changed"]
    assert not mark.exists()


def test_a_mark_that_has_ended_is_nobodys(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, reason="reboot by kim", seconds=0)
    taken = answer(monkeypatch, reason="reboot by pat")
    assert (taken["failed"], taken["changed"]) == (False, True)


def test_every_user_can_read_the_mark_whatever_the_umask(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.umask(0o077)
    try:
        answer(monkeypatch)
    finally:
        os.umask(before)
    assert f"{mark.stat().st_mode & 0o777:o}" == "644"
