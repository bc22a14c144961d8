"""Limits and disks: a defect of one host is one finding about it."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from tests.unit.build import rdma
from tests.unit.checks.fleets import bad, fleet, the_one

WARN, FAIL = Status.WARN, Status.FAIL

# Change of h3, then check, result, and a part of the value.
ONE_HOST: list[tuple[dict[str, Any], str, Status, str]] = [
    ({"limits.nofile": 256}, "open files", FAIL, "at most 256"),
    ({"limits.nofile": 2048}, "open files", WARN, "at most 2048"),
    ({"limits.nproc": 100}, "processes limit", FAIL, "at most 100"),
    ({"limits.nproc": 300}, "processes limit", WARN, "at most 300"),
    ({"limits.pids": {"max": 100, "now": 20}}, "pids limit", FAIL, "20 of 100"),
    ({"limits.memlock": 65536}, "locked memory", WARN, "65536 bytes"),
    ({"space_shm.size_mib": 16}, "shared memory", FAIL, "of 16 MiB"),
    ({"space_shm.size_mib": 256}, "shared memory", WARN, "of 256 MiB"),
    ({"facts.ephemeral_ports": (40000, 40019)}, "ephemeral ports", FAIL, "20 ports"),
    ({"settings": {"net.core.somaxconn": "128"}}, "setting: net.core.somaxconn", WARN, "128"),
    ({"write_state.problem": "Read-only file system"}, "state directory", FAIL, "/state: Read-only"),
    ({"space_state.free_mib": 99}, "disk of runs", FAIL, "99 of"),
    ({"space_state.free_mib": 1000}, "disk of runs", WARN, "1000 of"),
    ({"space_state.free_mib": 4000}, "disk of runs", WARN, "4000 of"),
    ({"space_state.free_inodes": 3}, "disk of runs", FAIL, "3 of"),
    ({"space_tmp.free_mib": 5}, "temporary disk", WARN, "/tmp: 5 of"),
    ({"space_shared.free_mib": 5}, "shared disk", FAIL, "/shared: 5 of"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "check", "status", "value"), ONE_HOST, ids=lambda part: str(part)[:40])
def test_a_defect_is_one_finding_about_its_host(change: dict[str, Any], check: str, status: Status, value: str) -> None:
    the_one(change, check, status, value)


def test_hosts_without_a_defect_have_no_finding() -> None:
    assert bad(fleet()) == []


def test_locked_memory_must_have_no_limit_where_rdma_is() -> None:
    low = {"facts.rdma": (rdma(),), "limits.memlock": 1 << 20}
    found = [row for row in bad(fleet(h1=low, h2=low, h3=low)) if row.check == "locked memory"]
    assert [(row.status, row.where) for row in found] == [(FAIL, ("h1", "h2", "h3"))]


def test_all_hosts_below_a_floor_fail_together() -> None:
    small = {"space_shm.size_mib": 16}
    (found,) = bad(fleet(h1=small, h2=small, h3=small))
    assert (found.check, found.status, found.where) == ("shared memory", FAIL, ("h1", "h2", "h3"))
