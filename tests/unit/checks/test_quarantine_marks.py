"""Orders for the marks of a quarantine: whom the playbook asks, in which list, and what became of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.checks.quarantine_marks import NO_ANSWER, Marker, as_login, origin
from ddp_play.errors import HostNotReady
from ddp_play.testing import FakePlaybookRunner
from tests.unit.checks import fleets

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = PlaybookRequest("x.yml", ("inv",), "/", ("--limit", "rack1", "--user", "kim"), environment={"A": "b"})
ORDERS = {"h1": {"reason": "mtu: {{ 1400 }}"}, "h2": {"reason": "x"}, "h3": {"reason": "y"}}


def event(kind: str, host: str, **result: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "res": result}}


def keep(found: list[dict[str, Any]]) -> Callable[[PlaybookRequest], None]:
    """What the playbook reads while it runs."""

    def read(request: PlaybookRequest) -> None:
        found.append(json.loads(Path(request.environment["DDP_PLAY_MARK_ORDERS"]).read_text()))

    return read


def test_the_hosts_of_the_orders_are_asked_and_answer() -> None:
    events = (
        event("runner_on_ok", "h1", changed=True, kept="", path="/x"),
        event("runner_on_failed", "h2", msg="cannot change /x: Read-only file system"),
    )
    read: list[dict[str, Any]] = []
    runner = FakePlaybookRunner(events=events, work=keep(read))
    answers = Marker(REQUEST, Passwords(), runner).write(ORDERS)
    assert answers == {
        "h1": {"changed": True, "kept": ""},
        "h2": {"problem": "cannot change /x: Read-only file system"},
        "h3": {"problem": NO_ANSWER},
    }
    (request,) = runner.requests
    assert request.options == ("--user", "kim", "--limit", "h1,h2,h3")
    assert Path(request.playbook).name == "quarantine.yml"
    assert read == [ORDERS], "texts of hosts are in a file that nothing takes for a template"


def test_without_orders_nothing_runs() -> None:
    runner = FakePlaybookRunner()
    assert Marker(REQUEST, Passwords(), runner).write({}) == {}
    assert runner.requests == []


def test_a_playbook_that_reached_nobody_is_an_error() -> None:
    failure = TaskFailure("h1", "t", "no route", unreachable=True)
    lost = PlaybookOutcome(PlaybookStatus.UNREACHABLE, 4, (failure,), "")
    with pytest.raises(HostNotReady, match="no route"):
        Marker(REQUEST, Passwords(), FakePlaybookRunner(outcome=lost)).write(ORDERS)


def test_the_mark_is_roots_or_in_the_users_own_directory() -> None:
    mine = replace(fleets.facts(1), state_dir="/home/kim/.local/state/ddp-play/host")
    marker = Marker(REQUEST, Passwords(), FakePlaybookRunner())
    assert marker.place_of(mine) == {"directory": "/home/kim/.local/state/ddp-play/host"}
    assert marker.place_of(replace(mine, user=replace(mine.user, uid=0))) == {}
    with_root = replace(REQUEST, options=("--become", *REQUEST.options))
    assert Marker(with_root, Passwords(), FakePlaybookRunner()).place_of(mine) == {}
    assert as_login(with_root) == REQUEST
    assert all(origin().values())
