"""Roles on hosts, from the events of a playbook: when each is reported, settled, stopped, waiting or not reached."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookStatus
from ddp_play.errors import Interrupted, UsageError
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
    play,
)  # fmt: skip


def test_an_unreachable_host_is_reported_at_once() -> None:
    observer = RecordingObserver()
    end = outcome(PlaybookStatus.UNREACHABLE, SICK)
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(end, (UNREACHABLE, *GOOD[2:])), observer)
    assert observer.cells[0] == ("h1", "base_os", "unreachable")
    assert "h1 (base_os unreachable)" in str(report.error())


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


def note(host: str, *roles: str) -> dict[str, Any]:
    """Event of the task by which verify notes failed roles before the host goes on."""
    event = done(host, "", ansible_facts={"ddp_failed_roles": list(roles)})
    event["event_data"] |= {"role": None, "task_action": "ansible.builtin.set_fact"}
    return event


def test_a_host_with_a_noted_failure_goes_on_and_all_its_failures_are_told() -> None:
    events = (
        *SETTLED,
        play("GPUs and networks"),
        done("h1", "cuda_toolkit", "failed", msg="no compiler"),
        note("h1", "cuda_toolkit"),
        play("Container engine"),
        done("h1", "docker_engine", "failed", msg="stopped"),
        note("h1", "cuda_toolkit", "docker_engine"),
        play("Hosts that are not as provisioned"),
        done("h1", "", "failed", msg="not as provisioned"),
    )
    found, observer = gpu_report(*events, h1={"failures": 1})
    assert found["h1", "rdma"] == f"skipped {NO_GPU}"
    assert found["h1", "cuda_toolkit"] == found["h1", "docker_engine"] == "failed"
    assert found["h1", "nccl"] == found["h2", "nccl"] == "ok"
    assert observer.cells[0] == ("h1", "cuda_toolkit", "failed"), "told at once, not at the end of the phase"


def test_a_noted_role_without_a_failure_of_its_own_ended_with_another_hosts() -> None:
    events = (play("Container engine"), done("h1", "docker_engine", "failed", msg="x"), done("h2", "docker_engine"))
    notes = (note("h1", "docker_engine"), note("h2", "docker_engine"))
    found, observer = gpu_report(*events, *notes, h1={"failures": 1})
    assert (found["h1", "docker_engine"], found["h2", "docker_engine"]) == ("failed", "stopped")
    assert [row for row in observer.cells if row[0] == "h2"] == [("h2", "docker_engine", "stopped")]


@pytest.mark.parametrize(
    ("status", "message", "end", "remedy"),
    [
        ("unreachable", "no route", PlaybookStatus.UNREACHABLE, "ssh"),
        ("failed", "Missing sudo password", PlaybookStatus.FAILED, "-K"),
    ],
)
def test_a_host_that_is_out_at_the_reading_fails_in_its_first_role(
    status: str, message: str, end: PlaybookStatus, remedy: str
) -> None:
    lost = done("h1", "", status, msg=message)
    lost["event_data"]["role"] = None
    observer = RecordingObserver()
    report = run_playbook(planned(), Passwords(), FakePlaybookRunner(outcome(end, SICK), (lost, *GOOD[2:])), observer)
    assert observer.cells[0] == ("h1", "base_os", status)
    (cell,) = [cell for cell in report.cells if (cell.host, cell.role) == ("h1", "base_os")]
    assert remedy in cell.remedy
    assert f"h1 (base_os {status})" in str(report.error())


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
