"""Plan, execution and report of a provisioning playbook, with a fake playbook runner."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.provisioning.host_role_table import Cell
from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.phases import Phase
from ddp_play.provisioning.playbook_run import PlaybookPlan, plan_playbook, run_playbook
from ddp_play.testing import FakePlaybookRunner
from tests.schemas import check

REQUEST = PlaybookRequest("/x.yml", ("/inv",), "/", tags=("base_os", "docker_engine"))
INVENTORY = Inventory({"ranks": Group("ranks", ("h1", "h2"))}, {})


@dataclass
class RecordingObserver:
    """Implements ProvisioningObserver."""

    phases: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    cells: list[tuple[str, str, str]] = field(default_factory=list)
    waits: list[tuple[str, str]] = field(default_factory=list)

    def phase(self, phase: Phase) -> None:
        self.phases.append(phase.name)

    def task(self, name: str, host: str) -> None:
        self.tasks.append(host)

    def waiting(self, host: str, why: str) -> None:
        self.waits.append((host, why))

    def cell(self, cell: Cell) -> None:
        self.cells.append((cell.host, cell.role, str(cell.status)))


def play(name: str) -> dict[str, Any]:
    return {"event": "playbook_on_play_start", "event_data": {"name": name}}


def done(host: str, role: str, kind: str = "ok", **res: Any) -> dict[str, Any]:
    data = {"host": host, "role": role, "task": "t", "task_action": "ansible.builtin.copy", "res": res}
    return {"event": f"runner_on_{kind}", "event_data": data}


def planned(
    inventory: Inventory = INVENTORY, request: PlaybookRequest = REQUEST, name: str = "provision"
) -> PlaybookPlan:
    return plan_playbook(request, name, Passwords(), load=lambda _request, _passwords: inventory)


def outcome(status: PlaybookStatus, *failures: TaskFailure, **stats: dict[str, int]) -> PlaybookOutcome:
    return PlaybookOutcome(status, 0 if status is PlaybookStatus.OK else 2, failures, "words", stats)


GOOD = (
    play("Operating system"),
    done("h1", "base_os", changed=True),
    done("h2", "base_os"),
    play("Container engine"),
    done("h1", "docker_engine"),
    done("h2", "docker_engine"),
)


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


SICK = TaskFailure("h1", "t", "no route", unreachable=True)
UNREACHABLE = done("h1", "base_os", "unreachable", msg="no route")
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


def test_an_unreachable_host_is_reported_at_once() -> None:
    observer = RecordingObserver()
    end = outcome(PlaybookStatus.UNREACHABLE, SICK)
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(end, (UNREACHABLE, *GOOD[2:])), observer)
    assert observer.cells[0] == ("h1", "base_os", "unreachable")
    assert "h1 (base_os unreachable)" in str(report.error())


def test_the_login_by_hand_has_the_inventorys_arguments_of_ssh() -> None:
    variables = {"ansible_ssh_common_args": "-J jump", "ansible_ssh_extra_args": "-o UserKnownHostsFile=/k"}
    inventory = Inventory({"ranks": Group("ranks", ("h1",), (), variables)}, {"h1": {"ansible_host": "10.0.0.1"}})
    assert planned(inventory).addresses == {"h1": "-J jump -o UserKnownHostsFile=/k 10.0.0.1"}


def test_a_task_that_is_repeated_tells_what_it_waits_for() -> None:
    observer = RecordingObserver()
    rows = ({"busy": ["1 container running: db", "ranks running: /a"], "attempts": 1}, {"attempts": 2})
    events = tuple({"event": "runner_retry", "event_data": {"host": "h1", "res": res}} for res in rows)
    run_playbook(planned(), Passwords(), FakePlaybookRunner(outcome(PlaybookStatus.OK), events), observer)
    assert observer.waits == [("h1", "1 container running: db; ranks running: /a"), ("h1", "")]


def read(host: str, **roles: str) -> dict[str, Any]:
    """Event of the task that finds the settled roles of a host."""
    event = done(host, "", settled_roles=roles)
    event["event_data"] |= {"role": None, "task_action": "ddp.play.settled_roles"}
    return event


NO_GPU = "no GPU found"
SETTLED = (
    play("Reading of the hosts"),
    read("h1", rdma=NO_GPU, nccl=""),
    read("h2", rdma=NO_GPU, nccl="", cuda_toolkit=""),
)


def gpu_report(
    *events: dict[str, Any], **stats: dict[str, int]
) -> tuple[dict[tuple[str, str], str], RecordingObserver]:
    """Status by host and role, and what was observed, of roles of the phase that ends last."""
    tags = ("rdma", "nvidia_driver", "cuda_toolkit", "nccl", "docker_engine")
    observer = RecordingObserver()
    runner = FakePlaybookRunner(outcome(PlaybookStatus.FAILED if stats else PlaybookStatus.OK, **stats), events)
    plan = planned(request=PlaybookRequest("/x.yml", ("/inv",), "/", tags=tags))
    report = run_playbook(plan, Passwords(), runner, observer)
    return {(cell.host, cell.role): f"{cell.status} {cell.reason}".strip() for cell in report.cells}, observer


def test_settled_roles_are_in_the_table_after_their_phase() -> None:
    events = (*SETTLED, play("GPUs and networks"), done("h1", "cuda_toolkit"), play("Container engine"))
    found, observer = gpu_report(*events)
    for host in ("h1", "h2"):
        assert found[host, "rdma"] == f"skipped {NO_GPU}"
        assert found[host, "nccl"] == found[host, "cuda_toolkit"] == "ok"
        assert found[host, "nvidia_driver"].startswith("not_run"), "it was neither settled nor run"
        assert found[host, "docker_engine"].startswith("not_run")
    assert observer.phases == ["GPUs and networks", "Container engine"]
    assert ("h2", "rdma", "skipped") in observer.cells


def test_a_settled_role_that_runs_all_the_same_tells_itself() -> None:
    events = (*SETTLED, play("GPUs and networks"), done("h2", "nccl", changed=True), play("Container engine"))
    assert gpu_report(*events)[0]["h2", "nccl"] == "changed"


def test_settled_roles_after_a_failure_did_not_run() -> None:
    failed = done("h1", "cuda_toolkit", "failed", msg="no compiler")
    events = (*SETTLED, read("h1", rdma=NO_GPU, nccl="", docker_engine=""), play("GPUs and networks"), failed)
    found, _ = gpu_report(*events, play("Container engine"), h1={"failures": 1})
    assert found["h1", "rdma"] == f"skipped {NO_GPU}"
    assert found["h1", "cuda_toolkit"] == "failed"
    assert found["h1", "nccl"] == found["h1", "docker_engine"] == "not_run cuda_toolkit failed before it"
    assert found["h2", "nccl"] == "ok"


def test_a_host_that_is_not_reachable_at_the_reading_fails_in_its_first_role() -> None:
    lost = done("h1", "", "unreachable", msg="no route")
    lost["event_data"]["role"] = None
    observer = RecordingObserver()
    end = outcome(PlaybookStatus.UNREACHABLE, SICK)
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(end, (lost, *GOOD[2:])), observer)
    assert observer.cells[0] == ("h1", "base_os", "unreachable")
    assert "h1 (base_os unreachable)" in str(report.error())


def test_a_role_is_reported_when_its_host_begins_the_next_one() -> None:
    observer = RecordingObserver()
    events = (
        play("GPUs and networks"),
        done("h1", "rdma"),
        done("h1", "nvidia_driver"),
        done("h2", "rdma", changed=True),
        done("h1", "nccl"),
    )
    request = PlaybookRequest("/x.yml", ("/inv",), "/")
    run_playbook(
        planned(request=request), Passwords(), FakePlaybookRunner(outcome(PlaybookStatus.OK), events), observer
    )
    assert observer.cells[:2] == [("h1", "rdma", "ok"), ("h1", "nvidia_driver", "ok")]
    assert ("h2", "rdma", "changed") in observer.cells[2:]


@pytest.mark.parametrize("status", [PlaybookStatus.NOT_STARTED, PlaybookStatus.CANCELED])
def test_a_playbook_that_ends_without_its_summary_has_stopped_roles_and_none_that_is_ok(status: PlaybookStatus) -> None:
    events = (*GOOD[:4], done("h1", "docker_engine", changed=True))
    observer = RecordingObserver()
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(outcome(status), events), observer)
    found = {(cell.host, cell.role): str(cell.status) for cell in report.cells}
    assert found == {
        ("h1", "base_os"): "changed",
        ("h1", "docker_engine"): "stopped",
        ("h2", "base_os"): "ok",
        ("h2", "docker_engine"): "not_run",
    }
    assert ("h1", "docker_engine", "stopped") in observer.cells
    assert not any(row[:2] == ("h1", "docker_engine") and row[2] != "stopped" for row in observer.cells)
    expected = Interrupted if status is PlaybookStatus.CANCELED else UsageError
    assert isinstance(report.error(), expected)
    check("provision", {**report.to_json(), "phases": [phase.to_json() for phase in planned().phases]})
