"""Batches of a provisioning: their order and plans, the stop at the first failure, the command that goes on."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus
from ddp_play.errors import CheckFailed, HostNotReady
from ddp_play.provisioning.host_role_table import Cell, CellStatus
from ddp_play.provisioning.phases import Phase
from ddp_play.provisioning.playbook_run import PlaybookPlan, Report
from ddp_play.provisioning.rolling import Rolling, restricted, run_batches
from tests.schemas import check

HOSTS = ("h1", "h2", "h3", "h4", "nfs")
REQUEST = PlaybookRequest("/p.yml", ("/inv",), "/", options=("--user", "ops", "--limit", "all"), tags=("base_os",))
PLAN = PlaybookPlan(
    REQUEST,
    (Phase("Operating system", HOSTS, ("base_os",)), Phase("Server", ("nfs",), ("nfs_server",))),
    providers=("nfs", "elsewhere"),
)
NONE = Passwords()


@pytest.mark.parametrize(
    ("rolling", "expected"),
    [
        (Rolling(), (("nfs", "h1", "h2", "h3", "h4"),)),
        (Rolling(2), (("nfs", "h1"), ("h2", "h3"), ("h4",))),
        (Rolling(0, canary=True), (("nfs",), ("h1", "h2", "h3", "h4"))),
        (Rolling(3, canary=True), (("nfs",), ("h1", "h2", "h3"), ("h4",))),
        (Rolling(9), (("nfs", "h1", "h2", "h3", "h4"),)),
        (Rolling(2, providers_first=False), (("h1", "h2"), ("h3", "h4"), ("nfs",))),
        (Rolling(3, providers_first=False), (("h1", "h2", "h3"), ("h4",), ("nfs",))),
    ],
)
def test_batches_begin_with_the_hosts_that_others_need(rolling: Rolling, expected: tuple[tuple[str, ...], ...]) -> None:
    assert rolling.batches(PLAN) == expected
    assert rolling.wanted is (rolling != Rolling())


def test_the_plan_of_a_batch_has_its_hosts_as_the_only_limit() -> None:
    plan = restricted(PLAN, ("h1", "h2"))
    assert plan.request.options == ("--user", "ops", "--limit", "h1,h2")
    assert [phase.hosts for phase in plan.phases] == [("h1", "h2"), ()]
    assert plan.hosts == ("h1", "h2")


def report(plan: PlaybookPlan, bad: dict[str, CellStatus]) -> Report:
    cells = tuple(Cell(host, "base_os", bad.get(host, CellStatus.OK)) for host in plan.hosts)
    failed = [host for host in plan.hosts if host in bad]
    status = PlaybookStatus.FAILED if failed else PlaybookStatus.OK
    return Report("id", Path("/r"), Path("/log"), cells, PlaybookOutcome(status, 0, (), ""), 1.0)


def test_all_batches_run_while_none_fails() -> None:
    ran: list[tuple[str, ...]] = []

    def run(plan: PlaybookPlan) -> Report:
        ran.append(plan.hosts)
        return report(plan, {})

    roll = run_batches(PLAN, Rolling(2), NONE, run)
    assert sorted(ran) == [("h1", "nfs"), ("h2", "h3"), ("h4",)]
    assert roll.error() is None
    check("playbook-report", {**roll.to_json(), "phases": [phase.to_json() for phase in PLAN.phases]})
    assert roll.to_json()["not_reached"] == []
    assert [sorted(batch) for batch in roll.to_json()["batches"]] == [["h1", "nfs"], ["h2", "h3"], ["h4"]]
    assert {cell["host"] for cell in roll.to_json()["cells"]} == set(HOSTS)


def test_a_failure_stops_before_the_next_batch_and_names_who_was_not_touched() -> None:
    roll = run_batches(PLAN, Rolling(2), NONE, lambda plan: report(plan, {"h1": CellStatus.FAILED}))
    assert len(roll.reports) == 1
    assert roll.not_reached == ("h2", "h3", "h4")
    error = roll.error()
    assert isinstance(error, CheckFailed)
    assert "not touched: h2, h3, h4" in error.message
    command = "ddp-play provision -i /inv --user ops --limit h1,h2,h3,h4 --tags base_os --serial 2"
    assert error.hint.endswith(f"to continue: {command}")
    assert roll.to_json()["command"] == command
    assert roll.to_json()["exit_code"] == 1


def test_a_failed_canary_is_the_canary_again_and_prompts_are_repeated() -> None:
    passwords = Passwords(connection="a", become="b", vault="c")
    roll = run_batches(PLAN, Rolling(2, canary=True), passwords, lambda plan: report(plan, {"nfs": CellStatus.FAILED}))
    assert roll.command.endswith("--limit nfs,h1,h2,h3,h4 --tags base_os --serial 2 --canary -k -K -J")
    roll = run_batches(PLAN, Rolling(2, canary=True), NONE, lambda plan: report(plan, {"h2": CellStatus.FAILED}))
    assert roll.command.endswith("--limit h2,h3,h4 --tags base_os --serial 2")


def test_an_unreachable_host_stops_too() -> None:
    roll = run_batches(PLAN, Rolling(4), NONE, lambda plan: report(plan, {"h3": CellStatus.UNREACHABLE}))
    assert isinstance(roll.error(), HostNotReady)
    assert roll.not_reached == ("h4",)


def test_a_batch_that_ended_without_results_is_repeated_as_a_whole() -> None:
    def run(plan: PlaybookPlan) -> Report:
        return dataclasses.replace(report(plan, {}), outcome=PlaybookOutcome(PlaybookStatus.CANCELED, 254, (), ""))

    assert "--limit nfs,h1,h2,h3,h4 " in run_batches(PLAN, Rolling(2), NONE, run).command


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ansible_become_password=hunter2", "..."),
        ('{"registry": {"token": "hunter2"}}', "..."),
        ("api_key=hunter2", "..."),
        ("a=1", "a=1"),
        ("@secrets.yml", "@secrets.yml"),
    ],
)
def test_the_command_that_goes_on_shows_no_secret(value: str, shown: str) -> None:
    request = dataclasses.replace(REQUEST, options=("--extra-vars", value, "--user", "ops"))
    command = shlex.split(Rolling(1).command(request, ("h1",), NONE))
    assert command[4:8] == ["--extra-vars", shown, "--user", "ops"]


def test_the_command_that_goes_on_has_the_words_of_the_verb_in_place_of_their_variables() -> None:
    own = ("--extra-vars", '{"ddp_reboot_serial": 1}')
    request = dataclasses.replace(REQUEST, options=(*own, "--user", "ops"))
    rolling = Rolling(1, verb=("reboot", "--yes"), own=own)
    command = rolling.command(request, ("h2",), NONE)
    assert command == "ddp-play reboot --yes -i /inv --user ops --limit h2 --tags base_os --serial 1"
