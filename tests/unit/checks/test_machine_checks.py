"""CPUs, memory, processes, versions and GPUs: a defect of one host is one finding about it."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from ddp_play.planning.host_facts import Engine
from tests.unit.build import gpus
from tests.unit.checks.fleets import bad, fleet, the_one

WARN, FAIL = Status.WARN, Status.FAIL

SILENT = "no Docker engine answers on /run/docker.sock ([Errno 2] No such file or directory)"
PROGRAM = {"lines": 1, "last": ["NVRM: Xid 31"]}
BROKEN = {"lines": 2, "last": ["NVRM: Xid 79"]}
# Change of h3, then check, result, and a part of the value.
ONE_HOST: list[tuple[dict[str, Any], str, Status, str]] = [
    ({"cpu.usable": 64}, "cpu", FAIL, "64 of 128 CPUs"),
    ({"cpu.usable": 130}, "cpu", WARN, "130 of 128"),
    ({"cpu_quota.cpus": 4.5}, "cpu quota", FAIL, "4.5 of 128 CPUs"),
    ({"memory.total_mib": 250_000}, "memory", FAIL, "250000 MiB"),
    ({"memory.total_mib": 600_000}, "memory", WARN, "600000 MiB"),
    ({"memory.limit_mib": 300}, "memory limit", FAIL, "300 of"),
    ({"governor.governors": ["powersave"]}, "cpu governor", WARN, "powersave"),
    ({"governor.clocksource": "hpet"}, "clock source", WARN, "hpet"),
    ({"governor.max_mhz": 3300}, "cpu clock limit", WARN, "3300 MHz"),
    ({"memory_errors.ue": 2}, "memory errors", FAIL, "2 uncorrected"),
    ({"kernel_log": {"gpu": BROKEN}}, "kernel log", FAIL, "errors of a GPU (Xid): 2"),
    ({"kernel_log": {"gpu_program": PROGRAM}}, "kernel log", WARN, "programs that a GPU has ended (Xid): 1"),
    ({"kernel_log": {"gpu_program": PROGRAM, "gpu": BROKEN}}, "kernel log", FAIL, "last: NVRM: Xid 79"),
    ({"kernel_log": {"nfs": {"lines": 1, "last": ["nfs: server"]}}}, "kernel log", WARN, "NFS"),
    ({"processes": [{"pid": 7, "state": "D", "parent": 1, "age_s": 90, "name": "dd"}]}, "processes", WARN, "7 dd"),
    ({"processes": [{"pid": 7, "state": "Z", "parent": 6, "age_s": 20, "name": "x"}]}, "processes", WARN, "(of 6)"),
    ({"facts.runs": ({"run": "night", "guard_alive": False},)}, "leftovers", WARN, "night"),
    ({"reboot_pending": ["linux-image"]}, "reboot", WARN, "linux-image"),
    ({"facts.engine": Engine("", SILENT)}, "engine", WARN, "no Docker engine answers"),
    ({"software.kernel": "6.5"}, "version: kernel", WARN, "6.5"),
    ({"software.architecture": "aarch64"}, "version: architecture", FAIL, "aarch64"),
    ({"software.libc": "glibc 2.36"}, "version: libc", WARN, "glibc 2.36"),
    ({"facts.gpu_problem": "8 in sysfs, 7 shown"}, "gpus", FAIL, "7 shown"),
    ({"facts.gpus": gpus(1)}, "gpu models", FAIL, "1 x"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "check", "status", "value"), ONE_HOST, ids=lambda part: str(part)[:40])
def test_a_defect_is_one_finding_about_its_host(change: dict[str, Any], check: str, status: Status, value: str) -> None:
    the_one(change, check, status, value)


def test_hosts_without_a_defect_have_no_finding() -> None:
    assert bad(fleet()) == []


def test_an_engine_is_no_matter_of_hosts_without_one_and_permission_one_of_the_job() -> None:
    for engine in (Engine("", SILENT, cli=False), Engine("", "no permission on /run/docker.sock", permission=True)):
        assert bad(fleet(h3={"facts.engine": engine})) == []


def test_versions_that_end_a_job() -> None:
    torch = {f"h{n}": {"facts.rank_torch": "2.12.1" if n == 3 else "2.13.0"} for n in (1, 2, 3)}
    (found,) = bad(fleet(**torch))
    assert (found.check, found.status, found.where, found.limit) == ("version: torch", FAIL, ("h3",), "2.13.0")


def test_users_of_gpus_are_warnings() -> None:
    # each GPU has an id of its own, and the others are idle
    hosts: dict[str, dict[str, Any]] = {}
    for n in (1, 2, 3):
        rows = gpus(1, users=("77 python",)) if n == 2 else gpus(1)
        hosts[f"h{n}"] = {
            "facts.gpus": tuple(type(g)(g.index, f"GPU-{n}", g.model, g.memory_mib, g.users) for g in rows)
        }
    assert [(row.check, row.where) for row in bad(fleet(**hosts))] == [("gpu users", ("h2",))]
