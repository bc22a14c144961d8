"""The assignment of the next attempt, as data: nothing is read, written or sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddp_play.bundle.paths import RunPaths
from ddp_play.errors import HostNotReady, HostUnfit
from ddp_play.run.attempt_assignment import Assignment, Waiting
from ddp_play.run.attempt_result import NotStarted
from ddp_play.run.restart_assignment import Following, ReplanInput, assign, on_other_hosts, reasons
from ddp_play.run.restart_decision import End, Restart
from tests.unit.build import hosts, plan
from tests.unit.planning.test_next_attempt import fleet

LOST = Restart("host h2 was lost", {"h2": "silent for 30 s"})


def given(**more: Any) -> Assignment:
    """The first attempt, on h1 and h2."""
    return Assignment(plan(*hosts(2)), (), RunPaths(Path("/nowhere/calm-otter-1")), token="ab", **more)


def replan_input(count: int = 3, *, retired: Mapping[str, str] | None = None, **values: Any) -> ReplanInput:
    """A run of two hosts with a spare."""
    return ReplanInput(fleet(count, **{"spares": ["h3"], **values}), retired or {}, 2)


def test_a_spare_takes_the_place_of_a_lost_host() -> None:
    step = assign(LOST, given(attempt=4, num_ended=1), replan_input(), num_ended=2)
    assert isinstance(step, Following)
    assert [host.name for host in step.assignment.plan.hosts] == ["h1", "h3"]
    assert (step.assignment.attempt, step.assignment.num_ended, step.assignment.continues) == (5, 2, True)
    assert (step.reason, dict(step.retired)) == (LOST.reason, LOST.gone)
    assert step.assignment.token == "ab"


def test_without_a_lost_host_the_same_hosts_start_again() -> None:
    step = assign(Restart("rank 0 was killed", error="E: full"), given(), replan_input(), num_ended=1)
    assert isinstance(step, Following)
    assert [host.name for host in step.assignment.plan.hosts] == ["h1", "h2"]
    assert (dict(step.retired), step.error) == ({}, "E: full")


def test_hosts_that_were_retired_before_stay_out_and_are_not_listed_again() -> None:
    step = assign(Restart("rank 0 was killed"), given(), replan_input(retired={"h1": "silent"}), num_ended=1)
    assert isinstance(step, Following)
    assert [host.name for host in step.assignment.plan.hosts] == ["h2", "h3"]
    assert dict(step.retired) == {}


def test_the_reason_why_there_is_no_restart() -> None:
    nothing = dataclasses.replace(replan_input(), fleet=None)
    assert assign(LOST, given(), nothing, num_ended=1) == End("its facts.json is not in the bundle")
    few = assign(LOST, given(), replan_input(2, spares=[]), num_ended=1)
    assert isinstance(few, End)
    assert few.reason.startswith("too few hosts are left: ")
    secret = dataclasses.replace(
        replan_input(), fleet=dataclasses.replace(fleet(3, spares=["h3"]), secret_names=("TOKEN",))
    )
    assert assign(LOST, given(), secret, num_ended=1) == End(
        "only the process that started the run had the values of its secrets, and another one has taken over"
    )
    assert isinstance(assign(LOST, given(secrets={"TOKEN": "t"}), secret, num_ended=1), Following)


NOT_PREPARED = NotStarted(HostUnfit("no room"))
PREPARED = NotStarted(HostUnfit("no way"), prepared=True, waiting=Waiting(9.0, 1.0))


def test_spares_take_the_place_of_hosts_that_did_not_take_a_first_attempt() -> None:
    first = dataclasses.replace(given(), num_ended=0)
    following = on_other_hosts({"h2": "no room"}, first, replan_input(), NOT_PREPARED)
    assert following is not None
    assert [host.name for host in following.plan.hosts] == ["h1", "h3"]
    assert following.attempt == first.attempt
    prepared = on_other_hosts({"h2": "no way"}, first, replan_input(), PREPARED)
    assert prepared is not None
    assert prepared.attempt == first.attempt + 1
    assert prepared.waiting == Waiting(9.0, 1.0)


def test_a_spare_that_takes_no_new_runs_takes_no_place() -> None:
    known = replan_input()
    assert known.fleet is not None
    drained = {**known.fleet.facts, "h3": {**known.fleet.facts["h3"], "drained": "it is being rebooted"}}
    closed = dataclasses.replace(known, fleet=dataclasses.replace(known.fleet, facts=drained))
    first = dataclasses.replace(given(), num_ended=0)
    assert on_other_hosts({"h2": "no room"}, first, closed, NOT_PREPARED) is None


def test_a_first_attempt_does_not_begin_with_fewer_hosts_but_a_restart_may() -> None:
    without_spare = replan_input(2, spares=[], hosts="1..")
    first = dataclasses.replace(given(), num_ended=0)
    assert on_other_hosts({"h2": "no room"}, first, without_spare, NOT_PREPARED) is None
    again = on_other_hosts({"h2": "no room"}, dataclasses.replace(given(), num_ended=1), without_spare, NOT_PREPARED)
    assert again is not None
    assert [host.name for host in again.plan.hosts] == ["h1"]


def test_the_reason_of_each_host_is_its_own_line() -> None:
    error = HostNotReady("h1, h3: no room\nh2: a limit: 16", hosts=("h1", "h2", "h3"))
    assert reasons(error) == {"h1": "no room", "h2": "a limit: 16", "h3": "no room"}
    assert reasons(HostNotReady("the hosts differ:\nall of them", hosts=("h1",))) == {"h1": "all of them"}
