"""Plan, execution and report of a provisioning playbook, with a fake playbook runner."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.playbook_run import run_playbook
from ddp_play.testing import FakePlaybookRunner
from tests.schemas import check
from tests.unit.provisioning.playbook_events import (
    GOOD,
    SICK,
    UNREACHABLE,
    RecordingObserver,
    done,
    outcome,
    planned,
)  # fmt: skip


def test_the_plan_names_the_playbook_and_the_tagged_phases() -> None:
    plan = planned()
    assert plan.request.playbook.endswith("playbooks/provision.yml")
    assert [phase.name for phase in plan.phases] == ["Operating system", "Container engine"]
    assert plan.hosts == ("h1", "h2")


ROW = {"kind": "restart", "what": "unit docker.service", "whose": "theirs"}


@pytest.mark.parametrize("options", [(), ("--check",)])
def test_the_report_lists_each_change_once(options: tuple[str, ...]) -> None:
    event = done("h1", "docker_engine", changed=True, ddp_changes=[ROW, ROW])
    request = PlaybookRequest("/x.yml", ("/inv",), "/", options=options)
    runner = FakePlaybookRunner(outcome(PlaybookStatus.OK, h1={"ok": 1}), (event, event))
    report = run_playbook(planned(request=request), Passwords(), runner, RecordingObserver()).to_json()
    for verb in ("provision", "verify", "deprovision", "reboot"):
        check(verb, {**report, "phases": [phase.to_json() for phase in planned().phases]})
    assert report["changes"] == [{"host": "h1", "role": "docker_engine", **ROW}]
    assert report["check"] is bool(options)


@pytest.mark.parametrize("name", ["verify", "deprovision"])
def test_the_other_playbooks_have_the_same_roles(name: str) -> None:
    whole = PlaybookRequest("/x.yml", ("/inv",), "/")
    roles = [{role for phase in planned(request=whole, name=each).phases for role in phase.roles} for each in
             ("provision", name)]  # fmt: skip
    assert roles[0] == roles[1]


def test_an_unknown_tag() -> None:
    with pytest.raises(UsageError, match="no role dokcer"):
        planned(request=PlaybookRequest("/x.yml", ("/inv",), "/", tags=("dokcer",)))


def test_an_inventory_that_does_not_fit_stops_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="did you mean docker_engine_source"):
        planned(Inventory({"ranks": Group("ranks", ("h1",), (), {"docker_engine_sorce": "vendor"})}, {}))


def test_a_misspelt_extra_variable_stops_it_too() -> None:
    with pytest.raises(UsageError, match="--extra-vars: unknown variable docker_engine_sorce"):
        planned(request=PlaybookRequest("/x.yml", ("/inv",), "/", ("--extra-vars", "docker_engine_sorce=vendor")))


def test_no_host_in_any_phase() -> None:
    with pytest.raises(UsageError, match="no host"):
        planned(Inventory({"others": Group("others", ("h1",))}, {}))


def test_the_plan_tells_who_may_run_ranks() -> None:
    names = {"ranks": ("h1",), "spares": ("h2",), "nfs_server": ("h1", "s1")}
    inventory = Inventory({name: Group(name, hosts) for name, hosts in names.items()}, {})
    assert planned(inventory).ranks == ("h1", "h2")


def test_a_good_run_writes_its_report() -> None:
    observer, runner = RecordingObserver(), FakePlaybookRunner(outcome(PlaybookStatus.OK), GOOD)
    report = run_playbook(planned(), Passwords(), runner, observer)
    assert report.error() is None
    assert observer.phases == ["Operating system", "Container engine"]
    assert observer.cells[:2] == [("h1", "base_os", "changed"), ("h2", "base_os", "ok")]
    document = json.loads((report.directory / "report.json").read_text())
    assert (document["exit_class"], document["num_changed"], document["num_tasks"]) == ("done", 1, 4)
    assert report.directory.parent == Path(os.environ["DDP_PLAY_HOME"]) / "provision"
    assert (report.directory / "events.jsonl").stat().st_mode & 0o077 == 0
    assert "ServerAliveInterval" in runner.requests[0].environment["ANSIBLE_SSH_EXTRA_ARGS"]


def test_new_hosts_are_told_in_the_order_of_the_inventory() -> None:
    events = (done("h2", "base_os", is_new=True), done("h1", "base_os", is_new=True), done("h1", "rdma", is_new=False))
    runner = FakePlaybookRunner(outcome(PlaybookStatus.OK), (*GOOD, *events))
    assert run_playbook(planned(), Passwords(), runner, RecordingObserver()).new == ("h1", "h2")
    odd = (done("h1", "base_os", is_new="yes"), done("h9", "base_os", is_new=True))
    runner = FakePlaybookRunner(outcome(PlaybookStatus.OK), (*GOOD, *odd))
    assert run_playbook(planned(), Passwords(), runner, RecordingObserver()).new == ()


def test_the_users_own_ssh_arguments_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_SSH_EXTRA_ARGS", "-v")
    runner = FakePlaybookRunner(outcome(PlaybookStatus.OK), GOOD)
    run_playbook(planned(), Passwords(), runner, RecordingObserver())
    assert runner.requests[0].environment == {}


FAILED = done("h2", "docker_engine", "failed", msg="No space left on device")


@pytest.mark.parametrize(
    ("events", "end", "expected"),
    [
        ((UNREACHABLE, *GOOD[2:]), outcome(PlaybookStatus.UNREACHABLE, SICK), HostNotReady),
        ((*GOOD[:-1], FAILED), outcome(PlaybookStatus.FAILED, h2={"failures": 1}), CheckFailed),
        ((UNREACHABLE, FAILED), outcome(PlaybookStatus.FAILED, SICK, h2={"failures": 1}), CheckFailed),
        ((), outcome(PlaybookStatus.NOT_STARTED), UsageError),
        ((), outcome(PlaybookStatus.CANCELED), Interrupted),
        ((*GOOD[:-1], FAILED), outcome(PlaybookStatus.CANCELED, h2={"failures": 1}), Interrupted),
        ((), outcome(PlaybookStatus.FAILED, TaskFailure("h1", "t", "bad", bad_arguments=True)), UsageError),
    ],
    ids=["unreachable", "failed", "both", "not started", "canceled", "canceled after a failure", "bad arguments"],
)
def test_who_must_act(events: tuple[dict[str, Any], ...], end: PlaybookOutcome, expected: type[DdpPlayError]) -> None:
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(end, events), RecordingObserver())
    error = report.error()
    assert type(error) is expected
    assert report.to_json()["exit_class"] == expected.kind


def test_the_login_by_hand_has_the_inventorys_arguments_of_ssh() -> None:
    variables = {"ansible_ssh_common_args": "-J jump", "ansible_ssh_extra_args": "-o UserKnownHostsFile=/k"}
    inventory = Inventory({"ranks": Group("ranks", ("h1",), (), variables)}, {"h1": {"ansible_host": "10.0.0.1"}})
    assert planned(inventory).addresses == {"h1": "-J jump -o UserKnownHostsFile=/k 10.0.0.1"}
