"""What host_state says about units: states as systemd names them, and when an engine was started."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import host_state

from tests.unit.modules.stand_in import StandIn, play

if TYPE_CHECKING:
    from pathlib import Path

ACTIVE = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nExecMainStartTimestampMonotonic={start}\n"


def units(monkeypatch: pytest.MonkeyPatch, *blocks: str) -> dict[str, Any]:
    names = [f"u{number}.service" for number in range(len(blocks))]
    monkeypatch.setattr(host_state, "run", lambda _argv, _timeout: {"stdout": "\n".join(blocks)})
    return dict(host_state.read_units(names, 1))


def test_a_start_is_told_by_the_clock_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that was wrong at boot and set later does not matter: systemd counts from boot."""
    monkeypatch.setattr(time, "time", lambda: 5000.0)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    found = units(monkeypatch, ACTIVE.format(start="40000000"))["u0.service"]
    assert (found["active"], found["enabled"], found["started"]) == ("active", "enabled", 4940.0)


@pytest.mark.parametrize(
    "text",
    [
        ACTIVE.format(start="0"),
        ACTIVE.format(start=""),
        "LoadState=loaded\nActiveState=inactive\nExecMainStartTimestampMonotonic=40000000\n",
        "LoadState=not-found\nActiveState=inactive\n",
        "",
    ],
)
def test_what_does_not_run_was_not_started(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    assert units(monkeypatch, text)["u0.service"]["started"] == 0.0


def test_answers_come_in_the_order_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    found = units(monkeypatch, ACTIVE.format(start="1"), "LoadState=not-found\nActiveState=inactive\n")
    assert [unit["active"] for unit in found.values()] == ["active", "inactive"]


def test_no_units_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_state, "run", lambda *_: pytest.fail("asked"))
    assert host_state.read_units([], 1) == {}


@pytest.mark.parametrize(("answer", "held"), [({}, []), ({"a": False, "b": True}, ["b"])])
def test_held_packages(monkeypatch: pytest.MonkeyPatch, answer: dict[str, bool], held: list[str]) -> None:
    found = {name: {"version": "1-1", "held": is_held} for name, is_held in answer.items()}
    monkeypatch.setattr(host_state.host, "packages", lambda _names, _exclude: found)
    assert host_state.read_holds(["a", "b"]) == held


@pytest.mark.parametrize(("record", "is_new"), [('{"acceptance": {"due": true}, "a": {}}', True), ('{"a": {}}', False)])
def test_a_new_host_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, record: str, is_new: bool) -> None:
    path = tmp_path / "record.json"
    path.write_text(record)
    monkeypatch.setattr(host_state.host_record, "RECORD", str(path))
    assert play(monkeypatch, host_state, StandIn())["is_new"] is is_new
