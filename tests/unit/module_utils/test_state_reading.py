"""What a reading says about units, as systemd names their states, about packages, and for several roles at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import state_reading

if TYPE_CHECKING:
    from pathlib import Path

ACTIVE = "LoadState=loaded\nActiveState=active\nUnitFileState=enabled\nExecMainStartTimestampMonotonic={start}\n"


def units(monkeypatch: pytest.MonkeyPatch, *blocks: str) -> dict[str, Any]:
    names = [f"u{number}.service" for number in range(len(blocks))]
    monkeypatch.setattr(state_reading, "run", lambda _argv, _timeout: {"stdout": "\n".join(blocks)})
    return dict(state_reading.read_units(names, 1))


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
    monkeypatch.setattr(state_reading, "run", lambda *_: pytest.fail("asked"))
    assert state_reading.read_units([], 1) == {}


@pytest.mark.parametrize(("answer", "held"), [({}, []), ({"a": False, "b": True}, ["b"])])
def test_held_packages(monkeypatch: pytest.MonkeyPatch, answer: dict[str, bool], held: list[str]) -> None:
    found = {name: {"version": "1-1", "held": is_held} for name, is_held in answer.items()}
    monkeypatch.setattr(state_reading.host, "packages", lambda _names, _exclude: found)
    assert state_reading.read_holds(["a", "b"]) == held


def want(**options: Any) -> dict[str, Any]:
    """A wanted state with the defaults of the module's options."""
    return {name: row["default"] for name, row in state_reading.ARGUMENTS.items()} | options


def test_states_of_several_roles_are_as_if_each_was_read_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    path = str(tmp_path / "a")
    wants = [
        want(files=[path], commands={"out": ["echo", "1"], "none": ["/no/such/program"]}),
        want(
            content=[path], commands={"other": ["echo", "1"]}, units=["no-such.service"], packages=["no-such-package"]
        ),
        want(),
    ]
    together = state_reading.gather_all(wants)
    assert together == [state_reading.gather(row) for row in wants]
    assert [row["files"][path]["content"] for row in together[:2]] == ["", "text"]
    assert together[0]["commands"]["out"]["stdout"] == together[1]["commands"]["other"]["stdout"] == "1"
    nothing: dict[str, Any] = {
        name: [] if name in ("held", "recorded", "recorded_holds", "reboot_occupants") else {} for name in together[2]
    }
    assert together[2] == nothing | {"is_new": together[2]["is_new"]}


def test_what_several_roles_ask_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def ask(argv: list[str], _timeout: float) -> tuple[int, str, str]:
        asked.append(argv)
        return 0, "", ""

    monkeypatch.setattr(state_reading.occupants, "ask", ask)
    monkeypatch.setattr(
        state_reading.host, "packages", lambda names, _exclude: {name: {"held": True} for name in names}
    )
    wants = [
        want(units=["a.service"], packages=["p"], holds=True, occupants=True, commands={"x": ["docker", "info"]}),
        want(units=["a.service", "b.service"], packages=["q"], occupants=True, commands={"y": ["docker", "info"]}),
        want(commands={"z": ["docker", "info"]}, timeout_s=5),
    ]
    found = state_reading.gather_all(wants)
    programs = [argv[0] for argv in asked]
    assert (
        programs.count("systemctl") == programs.count("dpkg-query") + programs.count("rpm") == programs.count("ps") == 1
    )
    assert asked.count(["docker", "info"]) == 2, "the other one has another time limit"
    assert [row["held"] for row in found] == [["p"], [], []]
    assert found[0]["occupants"] == found[1]["occupants"] != {} == found[2]["occupants"]
