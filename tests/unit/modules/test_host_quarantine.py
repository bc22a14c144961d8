"""The module that puts a host into quarantine and releases it: what it keeps, what it refuses, and check mode."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_quarantine

from tests.unit.modules.stand_in import StandIn, play

WHY = "mtu: 1400, the others 1500"


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "quarantine.json"
    monkeypatch.setattr(host_quarantine, "MARK", path)
    return path


def answer(monkeypatch: pytest.MonkeyPatch, *, check: bool = False, **params: Any) -> dict[str, Any]:
    stand_in = StandIn(**params)
    stand_in.check_mode = check
    return play(monkeypatch, host_quarantine, stand_in)


def test_a_host_is_quarantined_once_and_released_once(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time()
    assert answer(monkeypatch, reason=WHY, by="kim", controller="login1", evidence=[{"check": "mtu"}])["changed"]
    fields = json.loads(mark.read_text())
    assert before <= fields.pop("since") <= time.time()
    assert fields == {
        "reason": WHY, "by": "kim", "controller": "login1", "evidence": [{"check": "mtu"}],
        "level": "", "checks": [], "num_hosts": 0,
    }  # fmt: skip
    assert mark.stat().st_mode & 0o777 == 0o644
    assert not answer(monkeypatch, reason="something else", by="lee")["changed"]
    assert json.loads(mark.read_text())["reason"] == WHY, "the first evidence stays"
    assert answer(monkeypatch, state="released")["changed"]
    assert not answer(monkeypatch, state="released")["changed"]
    assert list(mark.parent.iterdir()) == []


def test_check_mode_only_looks(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(monkeypatch, check=True, reason=WHY)["changed"]
    assert not mark.exists()
    answer(monkeypatch, reason=WHY)
    assert answer(monkeypatch, check=True, state="released")["changed"]
    assert mark.exists()


OF_CHECK: dict[str, Any] = {"reason": WHY, "level": "quick", "checks": ["mtu"], "num_hosts": 4}


def test_what_somebody_decided_is_undone_by_no_check(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, **OF_CHECK)
    assert json.loads(mark.read_text())["checks"] == ["mtu"]
    assert answer(monkeypatch, reason="its fan is loud", by="lee")["changed"], "it replaces the mark of a check"
    again = answer(monkeypatch, **OF_CHECK)
    assert (again["changed"], again["kept"]) == (False, "the host is in quarantine already")
    assert json.loads(mark.read_text())["reason"] == "its fan is loud"
    kept = answer(monkeypatch, state="released", of_check=True)
    assert (kept["changed"], kept["kept"], mark.exists()) == (False, "somebody decided it without a check", True)
    assert answer(monkeypatch, state="released")["changed"]


def test_a_mark_of_a_check_is_released_for_a_check(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, **OF_CHECK)
    assert answer(monkeypatch, state="released", of_check=True)["changed"]
    assert not mark.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "[" * 3000])
def test_a_mark_that_cannot_be_read_is_taken_for_somebodys(
    mark: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    mark.write_text(text)
    assert not answer(monkeypatch, state="released", of_check=True)["changed"]
    assert mark.read_text() == text


def test_a_user_without_root_has_an_own_list(mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "state" / "quarantine-own.json"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    found = answer(monkeypatch, **OF_CHECK, directory=str(own.parent))
    assert (found["changed"], found["path"], mark.exists()) == (True, str(own), False)
    assert own.parent.stat().st_mode & 0o777 == 0o700
    assert answer(monkeypatch, state="released", of_check=True, directory=str(own.parent))["changed"]
    assert not own.exists()
    monkeypatch.setattr("os.geteuid", lambda: 0)
    refused = answer(monkeypatch, **OF_CHECK, directory=str(own.parent))
    assert (refused["failed"], own.exists()) == (True, False)


def test_a_mark_that_cannot_be_written_is_named(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_quarantine, "MARK", mark / "below")
    mark.touch()
    refused = answer(monkeypatch, reason=WHY)
    assert refused["failed"]
    assert f"cannot change {mark / 'below'}: " in refused["msg"]


def test_a_quarantine_needs_a_reason(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = answer(monkeypatch, reason=" ")
    assert (refused["failed"], "no reason" in refused["msg"], mark.exists()) == (True, True, False)


def test_a_mark_is_never_longer_than_its_readers_read(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, reason="r" * 9999, evidence=[{"check": "x" * 500}] * 50)
    assert mark.stat().st_size <= host_quarantine.MAX_BYTES
    assert 0 < len(json.loads(mark.read_text())["evidence"]) < 50
