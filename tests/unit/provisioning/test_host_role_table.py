"""Table of results by host and role, from Ansible's events."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.provisioning.host_role_table import (
    OF_ANOTHER_HOST,
    Cell,
    CellStatus,
    add_event,
    finished_table,
    noted_failures,
    stopped,
    verdict_line,
)


def event(
    host: str = "h1", role: str = "docker_engine", kind: str = "ok", action: str = "ansible.builtin.command", **res: Any
) -> dict[str, Any]:
    data = {"host": host, "role": role, "task": "t", "task_action": action, "res": res}
    return {"event": f"runner_on_{kind}", "event_data": data}


def say(text: str, **where: str) -> dict[str, Any]:
    return event(action="ansible.builtin.debug", msg=text, **where)


def table(
    *events: dict[str, Any],
    plan: tuple[tuple[str, str], ...] = (("h1", "docker_engine"),),
    stats: dict[str, dict[str, int]] | None = None,
) -> tuple[Cell, ...]:
    cells: dict[tuple[str, str], Cell] = {}
    for row in events:
        add_event(cells, row)
    return finished_table(cells, plan, stats or {})


def only(*events: dict[str, Any], **options: Any) -> Cell:
    cells = table(*events, **options)
    assert len(cells) == 1
    return cells[0]


def test_no_change_is_ok() -> None:
    cell = only(event(), event(kind="skipped"), event(action="ansible.builtin.include_tasks"))
    assert (cell.status, cell.num_tasks, cell.num_changed) == (CellStatus.OK, 1, 0)


def test_changes_are_counted() -> None:
    cell = only(event(changed=True), event(), event(changed=True))
    assert (cell.status, cell.num_tasks, cell.num_changed) == (CellStatus.CHANGED, 3, 2)


@pytest.mark.parametrize("text", ["skipped: docker_engine: no systemd", "skipped: no systemd\n"])
def test_a_role_that_ends_itself_is_skipped_with_the_reason(text: str) -> None:
    cell = only(event(), say(text))
    assert (cell.status, cell.reason) == (CellStatus.SKIPPED, "no systemd")


def test_a_role_that_leaves_out_a_part_is_not_skipped() -> None:
    cell = only(say("skipped: docker_engine: dcgm, no driver"), event(changed=True))
    assert (cell.status, cell.reason) == (CellStatus.CHANGED, "dcgm, no driver")


def test_roles_out_of_the_plan_only_show_when_they_fail() -> None:
    assert only(event(), event(role="nccl")).role == "docker_engine"
    assert [cell.role for cell in table(event(), event(role="nccl", kind="failed", msg="x"))] == [
        "docker_engine",
        "nccl",
    ]


def test_other_messages_change_nothing() -> None:
    assert only(event(), say("skipped: nccl: no GPU"), say("hello")).status is CellStatus.OK


def test_files_that_deprovisioning_leaves() -> None:
    assert only(event(), say("left on h1: /var/lib/docker")).left == "/var/lib/docker"


def test_pending_changes_are_kept_and_the_role_continues() -> None:
    found = only(event(changed=True), say("pending: docker_engine: reboot needed: a new module"), event())
    assert (found.status, found.pending) == (CellStatus.CHANGED, "reboot needed: a new module")
    assert only(event(), say("pending: other_role: x")).pending == ""


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("pending: docker_engine: reboot needed", True),
        ("skipped: docker_engine: pending: removal. The host is busy: 1 container", True),
        ("skipped: docker_engine: no systemd", False),
    ],
)
def test_changes_wait_whether_the_role_goes_on_or_ends(text: str, waits: bool) -> None:
    assert only(event(), say(text)).waits is waits


def test_a_failure_has_message_and_remedy_and_handlers_do_not_hide_it() -> None:
    failed = event(kind="failed", msg="Task failed: Module failed: Could not get lock", stderr="E: lock-frontend")
    cell = only(event(changed=True), failed, event(changed=True), stats={"h1": {"failures": 1}})
    assert cell.status is CellStatus.FAILED
    assert cell.message == "Could not get lock\nE: lock-frontend"
    assert "another package manager" in cell.remedy


def test_a_url_that_is_not_reached_is_named_with_what_helps() -> None:
    """get_url has the URL in its result and not in its message; the host itself has been reached."""
    url = "https://download.docker.com/linux/debian/gpg"
    text = "Request failed: <urlopen error [Errno -2] Name or service not known>"
    cell = only(event(kind="failed", msg=text, url=url), stats={"h1": {"failures": 1}})
    assert cell.message == f"{text}\n{url}"
    assert "cannot resolve download.docker.com" in cell.remedy
    assert "docker_engine_source: distribution" in cell.remedy
    assert "ansible_host" not in cell.remedy


def test_a_host_that_answered_gets_no_remedy_for_unreachable_hosts() -> None:
    text = "Could not resolve hostname nas"
    assert only(event(kind="failed", msg=text), stats={"h1": {"failures": 1}}).remedy == ""


def test_the_message_of_a_loop_is_that_of_its_item() -> None:
    results = [{"msg": "fine"}, {"failed": True, "msg": "no such user"}]
    assert only(event(kind="failed", msg="One or more items failed", results=results)).message == "no such user"


def test_a_rescued_failure_is_none() -> None:
    cell = only(event(kind="failed", msg="x"), event(), stats={"h1": {"ok": 9}})
    assert (cell.status, cell.message) == (CellStatus.OK, "")


def test_a_failure_that_was_noted_stays_although_ansible_counts_it_as_rescued() -> None:
    cells: dict[tuple[str, str], Cell] = {}
    add_event(cells, event(kind="failed", msg="x"))
    plan = (("h1", "docker_engine"), ("h1", "nccl"), ("h2", "docker_engine"), ("h2", "nccl"))
    cells[plan[2]] = stopped(Cell(*plan[2]), OF_ANOTHER_HOST)
    stats = {"h1": {"ok": 9}, "h2": {"ok": 9}}
    found = finished_table(cells, plan, stats, {plan[0], plan[2]})
    assert [(cell.status, cell.message) for cell in found] == [
        ("failed", "x"),
        ("not_run", ""),
        ("stopped", OF_ANOTHER_HOST),
        ("not_run", ""),
    ]
    assert found[1].reason == "the playbook ended before this role", "the host went on after its failure"
    assert found[3].reason == "docker_engine stopped before it"


@pytest.mark.parametrize(
    ("role", "facts", "expected"),
    [
        ("", {"ddp_failed_roles": ["base_os", "nccl"]}, (("h1", "base_os"), ("h1", "nccl"))),
        ("", {"ddp_all_settled": True}, ()),
        ("", {"ddp_failed_roles": "base_os"}, ()),
        ("", [], ()),
        ("base_os", {"ddp_failed_roles": ["nccl"]}, ()),  # the facts of a host, not of the playbook
    ],
)
def test_notes_of_the_playbook(role: str, facts: Any, expected: tuple[tuple[str, str], ...]) -> None:
    assert noted_failures(event(role=role, ansible_facts=facts)) == expected


@pytest.mark.parametrize(
    ("cells", "changed", "verified"),
    [
        ((Cell("h1", "nccl"),), "1 host, changed=0", "1 host, 1 role as provisioned"),
        (
            (Cell("h1", "nccl"), Cell("h2", "nccl", CellStatus.SKIPPED), Cell("h1", "rdma", CellStatus.SKIPPED)),
            "2 hosts, changed=0",
            "2 hosts, 1 role as provisioned, 1 skipped",
        ),
        (
            tuple(Cell("h1", role, CellStatus.FAILED) for role in ("base_os", "nccl")),
            "1 host, changed=0; not done: h1 (base_os failed, nccl failed)",
            "1 host, 0 of 2 roles as provisioned; not as provisioned: h1 (base_os failed, nccl failed)",
        ),
    ],
)
def test_the_table_in_one_line(cells: tuple[Cell, ...], changed: str, verified: str) -> None:
    assert verdict_line(cells) == changed
    assert verdict_line(cells, verified=True) == verified


def test_an_ignored_failure_is_none() -> None:
    row = event(kind="failed", msg="x")
    row["event_data"]["ignore_errors"] = True
    assert only(event(), row).status is CellStatus.OK


def test_one_failed_host_among_others() -> None:
    plan = (("h1", "base_os"), ("h2", "base_os"), ("h1", "nccl"), ("h2", "nccl"))
    cells = table(
        event("h1", "base_os", kind="unreachable", msg="Failed to connect: Connection timed out", unreachable=True),
        event("h2", "base_os", changed=True),
        event("h2", "nccl"),
        plan=plan,
    )
    assert [cell.status for cell in cells] == ["unreachable", "changed", "not_run", "ok"]
    assert cells[0].remedy == "check that it is up: ssh h1"
    assert cells[2].reason == "base_os unreachable before it"
    assert verdict_line(cells) == "2 hosts, changed=1; not done: h1 (base_os unreachable)"


def test_the_remedy_has_the_hosts_address() -> None:
    cells: dict[tuple[str, str], Cell] = {}
    row = event(kind="unreachable", msg="timed out")
    added = add_event(cells, row, {"h1": "10.0.0.1"})
    assert added is not None
    assert added.remedy == "check that it is up: ssh 10.0.0.1"


def test_events_without_host_or_role_are_ignored() -> None:
    cells: dict[tuple[str, str], Cell] = {}
    assert add_event(cells, {"event": "verbose"}) is None
    assert add_event(cells, event(role="")) is None
    assert add_event(cells, event(kind="item_on_ok")) is None
    assert cells == {}


def test_the_time_of_a_role_is_that_of_its_tasks() -> None:
    rows = [event(), event(changed=True), event(kind="failed", msg="x")]
    for row, duration in zip(rows, (1.25, 2.5, None), strict=True):
        row["event_data"]["duration"] = duration
    assert only(*rows, stats={"h1": {"failures": 1}}).to_json()["duration_s"] == 3.8


def test_json_leaves_empty_texts_out() -> None:
    assert only(event()).to_json() == {
        "host": "h1", "role": "docker_engine", "status": "ok", "num_tasks": 1, "num_changed": 0, "duration_s": 0.0,
    }  # fmt: skip
