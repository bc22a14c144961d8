"""Usage of a fleet from its hosts' answers."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.run.host_usage import Group, find_usage, usage_of
from ddp_play.testing import FakePlaybookRunner

HOUR = 3600.0
DAY = 24 * HOUR


def used(run: str, hours: float, host: str = "h1", owner: str = "kim", **fields: Any) -> dict[str, Any]:
    row = {"run": run, "token": "0123456789abcdef", "owner": owner, "host": host, "attempts": 1}
    return {**row, "s": hours * HOUR, "slot_s": 2 * hours * HOUR, **fields}


def host(*runs: dict[str, Any], record: str = "", **fields: Any) -> dict[str, Any]:
    return {"runs": list(runs), "record": record, "gpus": 0, "slots": 2, "oldest_s": None, **fields}


TWO = {
    "h1": host(used("a", 6), used("b", 3, owner="pat"), record="x", oldest_s=5.0),
    "h2": host(used("a", 6, "h2", attempts=2), record="y", oldest_s=9.0),
    "h3": {"problem": "unreachable"},
}


def test_users_hosts_and_runs() -> None:
    found = usage_of(TWO, DAY)
    assert (found.capacity_hours, found.used_hours, found.oldest_s) == (96.0, 30.0, 9.0)
    assert found.idle_share == pytest.approx(66 / 96)
    assert found.problems == {"h3": "unreachable"}
    assert found.groups("user") == [Group("kim", 1, 2, 24.0, 0.25), Group("pat", 1, 1, 6.0, 0.0625)]
    assert found.groups("host") == [Group("h1", 2, 2, 18.0, 0.375), Group("h2", 1, 2, 12.0, 0.25)]
    assert [group.name for group in found.groups("run")] == ["a.0123456789abcdef", "b.0123456789abcdef"]


def test_gpus_are_busy_by_their_time() -> None:
    busy = used("a", 6, gpu_s=300.0, gpu_busy_s=300.0), used("b", 3, gpu_s=100.0, gpu_busy_s=0.0), used("c", 1)
    found = usage_of({"h1": host(*busy, gpus=2)}, DAY)
    assert found.has_gpus
    assert found.gpu_busy == 0.75
    assert [(group.name[0], group.gpu_busy) for group in found.groups("run")] == [("a", 1.0), ("b", 0.0), ("c", None)]
    assert [group.gpu_busy for group in found.groups("host")] == [0.75]
    without = usage_of({"h1": host(used("a", 6)), "h2": host(gpus=8)}, DAY)
    assert (without.has_gpus, without.gpu_busy) == (True, None)
    assert not usage_of(TWO, DAY).has_gpus


@pytest.mark.parametrize("seconds", [-1e9, "many", None, float("nan"), float("inf"), 1e300])
def test_a_host_is_never_busier_than_its_time(seconds: object) -> None:
    fields: tuple[dict[str, Any], ...] = ({"gpu_s": 10.0, "gpu_busy_s": seconds}, {"gpu_s": seconds, "gpu_busy_s": 5.0})
    for more in fields:
        busy = usage_of({"h1": host(used("a", 6, **more))}, DAY).gpu_busy
        assert busy is None or 0 <= busy <= 1


def test_a_machine_with_two_names_counts_once() -> None:
    rows = (used("a", 6), used("b", 6, "h2"), used("c", 6, "earlier name"))
    found = usage_of({"h1": host(*rows, record="x"), "h2": host(*rows, record="x")}, DAY)
    assert found.used_hours == 36.0
    assert [(group.name, group.slot_hours) for group in found.groups("host")] == [("h1", 24.0), ("h2", 12.0)]


def test_slots_are_gpus_or_what_the_inventory_says() -> None:
    answers = {"h1": host(gpus=8), "h2": host(), "h3": host(slots=None)}
    found = usage_of(answers, DAY)
    assert found.slots == {"h1": 8, "h2": 2, "h3": 1}
    assert found.idle_share == 1.0
    assert [group.share for group in found.groups("host")] == [0.0, 0.0, 0.0]


def test_more_ranks_than_slots_and_no_hosts() -> None:
    assert usage_of({"h1": host(used("a", 600))}, DAY).idle_share == 0.0
    assert usage_of({}, DAY).idle_share == 0.0
    nameless = usage_of({"h1": host(used("", 1, "", owner="", token=""))}, DAY)
    assert [group.name for by in ("user", "host", "run") for group in nameless.groups(by)] == [
        "(others)",
        "h1",
        "(others)",
    ]


def test_hosts_are_asked_for_a_time() -> None:
    orders = []

    def note(request: PlaybookRequest) -> None:
        orders.append(request.environment)

    event = {"event": "runner_on_ok", "event_data": {"host": "h1", "res": {"answer": host(used("a", 1))}}}
    runner = FakePlaybookRunner(events=(event,), work=note)
    found = find_usage(PlaybookRequest("/demo.yml", ("/inv",), "/"), Passwords(), runner, DAY)
    assert found.used_hours == 2.0
    assert "usage" in orders[0].values()


@pytest.mark.parametrize("seconds", [-1e9, "many", None, float("nan"), float("-inf")])
def test_odd_seconds_of_one_host_change_nothing_of_the_others(seconds: object) -> None:
    found = usage_of({**TWO, "h4": host(used("c", 1, "h4", slot_s=seconds), record="z")}, DAY)
    assert (found.used_hours, found.capacity_hours) == (30.0, 144.0)
