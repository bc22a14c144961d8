"""Listing of changes: rows from events, groups of hosts with the same changes, names of hosts in short."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.provisioning.change_listing import (
    ChangeKind,
    ChangeRow,
    Owner,
    changes_of_event,
    grouped,
    host_ranges,
)


def event(action: str, result: dict[str, Any], *, kind: str = "runner_on_ok", task: str = "a : b | Do it") -> Any:
    data = {"host": "h1", "role": "base_os", "task_action": action, "task": task, "res": result}
    return {"event": kind, "event_data": data}


def rows(found: tuple[ChangeRow, ...]) -> list[tuple[str, str, str]]:
    return [(str(row.kind), row.what, str(row.whose)) for row in found]


FILE = {"kind": "change", "what": "file /etc/x", "whose": "theirs"}
UNIT = {"kind": "restart", "what": "unit x.service", "whose": "ours"}


@pytest.mark.parametrize(
    ("action", "result", "expected"),
    [
        ("ddp.play.files", {"changed": True, "ddp_changes": [FILE]}, [("change", "file /etc/x", "theirs")]),
        ("ddp.play.files", {"changed": False, "ddp_changes": []}, []),
        ("ddp.play.host_record", {"changed": True, "ddp_changes": []}, []),
        (
            "ddp.play.unit_start",
            {"changed": True, "results": [{"changed": True, "ddp_changes": [UNIT]}, {"skipped": True}]},
            [("restart", "unit x.service", "ours")],
        ),
        ("ansible.builtin.debug", {"changed": True, "msg": "packages"}, []),
        ("ansible.builtin.command", {"changed": False}, []),
        ("ansible.builtin.command", {"changed": True}, [("change", "Do it", "theirs")]),
        ("ansible.builtin.get_url", {"changed": True, "dest": "/k.asc"}, [("change", "file /k.asc", "theirs")]),
        (
            "ansible.builtin.copy",
            {"changed": True, "dest": "/etc/profile.d/ddp-cuda.sh"},
            [("change", "file /etc/profile.d/ddp-cuda.sh", "ours")],
        ),
        ("ansible.posix.mount", {"changed": True, "name": "/shared"}, [("change", "mount /shared", "theirs")]),
        (
            "ansible.builtin.systemd_service",
            {"changed": True, "name": "a.service", "state": "started", "status": {"ActiveState": "active"}},
            [("restart", "unit a.service", "theirs")],
        ),
        (
            "ansible.builtin.systemd_service",
            {"changed": True, "name": "a.service", "state": "started", "status": {"ActiveState": "inactive"}},
            [("change", "unit a.service", "theirs")],
        ),
        (
            "ansible.builtin.systemd_service",
            {"changed": True, "name": "ddp-firewall.service", "state": "stopped", "status": {"ActiveState": "active"}},
            [("change", "unit ddp-firewall.service", "ours")],
        ),
        ("ansible.builtin.file", {"changed": True, "path": "/a", "state": "absent"}, [("remove", "file /a", "theirs")]),
        ("ansible.builtin.apt", {"changed": True, "state": "absent"}, [("remove", "Do it", "theirs")]),
        # What a host may send instead of rows.
        ("ddp.play.files", {"changed": True, "ddp_changes": 7}, [("change", "Do it", "theirs")]),
        ("ddp.play.files", {"changed": True, "ddp_changes": ["x"]}, [("change", "Do it", "theirs")]),
        (
            "ddp.play.files",
            {"changed": False, "ddp_changes": [{**FILE, "kind": ["x"]}]},
            [("change", "Do it", "theirs")],
        ),
        (
            "ddp.play.files",
            {"changed": True, "ddp_changes": [{**FILE, "whose": "mine"}]},
            [("change", "Do it", "theirs")],
        ),
        (
            "ddp.play.files",
            {"changed": True, "ddp_changes": [{**FILE, "what": ["x"]}]},
            [("change", "Do it", "theirs")],
        ),
        (
            "ddp.play.files",
            {"changed": True, "ddp_changes": [{**FILE, "what": "x" * 5000}]},
            [("change", "Do it", "theirs")],
        ),
        ("ansible.builtin.reboot", {"changed": True, "rebooted": True}, [("reboot", "the host", "theirs")]),
    ],
)
def test_rows_of_an_event(action: str, result: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    assert rows(changes_of_event(event(action, result))) == expected


@pytest.mark.parametrize("kind", ["runner_on_failed", "runner_on_skipped", "runner_item_on_ok", "playbook_on_stats"])
def test_other_events_have_no_rows(kind: str) -> None:
    assert changes_of_event(event("ddp.play.files", {"changed": True, "ddp_changes": [FILE]}, kind=kind)) == ()


def row(host: str, kind: str, what: str, whose: str = "new", role: str = "base_os") -> ChangeRow:
    return ChangeRow(host, role, ChangeKind(kind), what, Owner(whose))


def test_hosts_with_the_same_changes_are_one_group_and_danger_comes_first() -> None:
    found = grouped([
        row("h1", "add", "package a"), row("h1", "add", "package b"), row("h1", "restart", "unit u", "theirs"),
        row("h2", "add", "package a"), row("h2", "add", "package b"), row("h2", "restart", "unit u", "theirs"),
        row("h3", "add", "package a"),
        row("h4", "remove", "package z", "theirs", "docker_engine"), row("h4", "add", "package a"),
    ])  # fmt: skip
    assert [group.hosts for group in found] == [("h4",), ("h1", "h2"), ("h3",)]
    assert [(str(line.kind), line.what) for line in found[1].lines] == [
        ("restart", ("unit u",)),
        ("add", ("package a", "package b")),
    ]
    assert grouped([]) == ()


def test_changes_of_theirs_come_before_those_of_ours() -> None:
    (group,) = grouped([row("h1", "change", "a", "ours"), row("h1", "change", "b", "theirs")])
    assert [line.what for line in group.lines] == [("b",), ("a",)]


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [
        ([], ""),
        (["h1"], "h1"),
        (["gpu01", "gpu02", "gpu03"], "gpu[01-03]"),
        (["gpu08", "gpu09", "gpu11", "head"], "gpu[08-09,11], head"),
        (["n9", "n10"], "n9, n10"),
        (["a1.site", "a2.site"], "a[1-2].site"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.1, 10.0.0.2"),
    ],
)
def test_host_ranges(hosts: list[str], expected: str) -> None:
    assert host_ranges(hosts) == expected
