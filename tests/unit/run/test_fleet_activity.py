"""Activity of hosts: what is taken from an answer, and hosts that do not answer or lie."""

from __future__ import annotations

import fcntl
import json
import threading
from pathlib import Path
from typing import Any, cast

import pytest

from ddp_play.bundle.paths import read_json
from ddp_play.guard.protocol import encode
from ddp_play.run import fleet_activity
from ddp_play.run.fleet_activity import ANSWERS, VIEWER, ActivityOrders, FleetActivity, num_slots, serve
from ddp_play.run.host_channel import ProcessChannel
from ddp_play.testing import FakeChannel, FakeHost, FakeHosts, refusal
from tests.schemas import check
from tests.waiting import wait_until

RUN = {
    "run": "night",
    "token": "t",
    "attempt": 1,
    "owner": "kim",
    "user": "kim",
    "age_s": 61.0,
    "phase": "running",
    "ranks": {"running": 2},
    "unreadable": "",
    "cpu": 1.5,
    "memory": 1000,
    "slots": ["slot-0", "slot-1"],
}
ANSWER = {"cores": 8, "cpu": 2.5, "memory": 10, "memory_total": 100, "runs": [RUN], "of a later version": 1}
FACTS = {"gpus": [], "inventory": {"slots": 4}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_activity, "FIRST_S", 0.0)


def row(name: str) -> dict[str, Any]:
    """What discovery found of a host."""
    return {"facts": FACTS, "route": {"host": name, "argv": ["ssh", name], "command": "run"}}


def fleet(*hosts: FakeHost) -> FleetActivity:
    """A fleet with a channel to each of these hosts."""
    channels = {host.name: cast("ProcessChannel", FakeChannel(host)) for host in hosts}
    return FleetActivity({host.name: row(host.name) for host in hosts}, channels)


def answering(name: str = "h1", answer: Any = ANSWER) -> FakeHost:
    """A host that answers so."""
    return FakeHost(name, {"activity_read": [encode("activity_read", json.dumps(answer).encode())]})


def test_what_hosts_answer_without_fields_of_other_versions() -> None:
    found = fleet(answering())
    found.ask()
    host = found.document()["hosts"]["h1"]
    assert (host["problem"], host["slots"], host["cpu"], host["gpus"]) == ("", 4, 2.5, None)
    assert host["runs"] == [RUN]
    check("top", {"hosts": found.hosts})


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ([], "no answer within 0 s"),
        (refusal("activity_read", "unknown order activity_read"), "it sent unknown order activity_read"),
        ([encode("activity_read", b"nonsense")], "it sent Expecting value"),
        ([encode("activity_read", b"[" * 100_000)], "it sent maximum recursion depth"),
        ([encode("activity_read", b'{"runs": 3}')], "it sent an answer to activity with 3 in place of a list"),
        ([encode("activity_read", b'{"runs": [{"run": 3}]}')], "it sent an answer to activity with"),
        ([encode("activity_read", b" " * (1 << 20) + b"{}")], "it sent an answer that is too long"),
    ],
)
def test_a_host_that_does_not_answer_or_answers_nonsense(answers: list[bytes], problem: str) -> None:
    found = fleet(answering(), FakeHost("h2", {"activity_read": answers}))
    found.ask(0.2)
    assert found.hosts["h1"]["problem"] == ""
    assert found.hosts["h2"]["problem"].startswith(problem)
    check("top", {"hosts": found.hosts})


def test_a_host_that_was_not_reached_keeps_its_remedy() -> None:
    problem = {"message": "no route to host", "hint": "ssh h3", "kind": "network"}
    found = FleetActivity({"h3": {"problem": problem}}, {})
    found.ask()
    assert (found.hosts["h3"]["problem"], found.hosts["h3"]["hint"]) == ("no route to host", "ssh h3")
    check("top", {"hosts": found.hosts})


def test_a_broken_channel_is_opened_again_with_the_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = FakeHosts(answering())
    monkeypatch.setattr(fleet_activity, "ProcessChannel", hosts)
    channel = FakeChannel(hosts["h1"])
    found = FleetActivity({"h1": row("h1")}, {"h1": cast("ProcessChannel", channel)}, ({"h1": "b"}, {"h1": "s"}))
    channel.cut("the network is gone")
    found.ask()
    assert found.hosts["h1"]["problem"] == "the network is gone"
    assert hosts.routes == [], "not at once"
    monkeypatch.setattr(fleet_activity, "REOPEN_S", 0.0)
    found.ask()
    assert found.hosts["h1"]["problem"] == ""
    assert (hosts.passwords, hosts.ssh_passwords) == ({"h1": "b"}, {"h1": "s"})


@pytest.mark.parametrize(
    ("facts", "slots"),
    [
        ({}, 1),
        ({"gpus": [{}, {}], "inventory": {"slots": 9}}, 2),
        ({"gpus": [], "inventory": {"slots": 4}}, 4),
        ({"inventory": {"slots": None}}, 1),
    ],
)
def test_slots_of_a_host(facts: dict[str, Any], slots: int) -> None:
    assert num_slots(facts) == slots


def test_so_many_rounds(tmp_path: Path) -> None:
    host = answering()
    serve(fleet(host), ActivityOrders(str(tmp_path), rounds=2))
    assert host.kinds() == ["activity_read"] * 2
    assert read_json(tmp_path / ANSWERS)["round"] == 2


def test_it_ends_when_nobody_looks_any_more(tmp_path: Path) -> None:
    orders = ActivityOrders.from_text(ActivityOrders(str(tmp_path), interval_s=0.05).to_text())
    with (tmp_path / VIEWER).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=serve, args=(fleet(answering()), orders), daemon=True)
        thread.start()
        wait_until(lambda: read_json(tmp_path / ANSWERS).get("round", 0) > 2, timeout_s=10)
        assert thread.is_alive()
    thread.join(10)
    assert not thread.is_alive()
