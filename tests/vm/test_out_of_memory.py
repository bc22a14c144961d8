"""A rank that runs out of memory on machines with cgroup v2 and systemd: its guard lives, and the verdict names it.

A control group limits the memory: an emulated machine without any free memory stops answering before its kernel acts.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from .conftest import Site, timed
from .image import OPS_UID
from .machines import RANKS
from .site import SHARED, write_job

# Rank 1 takes memory until the kernel ends it; rank 0 waits to be stopped.
EATS = (
    "import os, time\n"
    "taken = []\n"
    "while os.environ['RANK'] == '1':\n"
    "    taken.append(bytearray(b'x') * (16 << 20))\n"
    "time.sleep(600)\n"
)
PROCESSES: dict[str, Any] = {"image": "", "mounts": [], "runtime": "process"}
# A drop-in for every unit whose name begins with ddp-play-, such as an administrator may have.
OF_GUARDS = "/run/systemd/system/ddp-play-.service.d"
OF_USER = f"user-{OPS_UID}.slice"
STATE = ("/var/lib/ddp-play/runs", "/home/ops/.local/state/ddp-play/host/runs", f"{SHARED}/.ddp-play")


@dataclass(frozen=True)
class Case:
    """Who runs out of which memory. `kernel`: a part of the verdict's lines from the kernel.

    `unit`: the guard is a unit of systemd, which by default stops a unit of which the kernel killed a process.
    """

    kernel: str
    job: dict[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    limit: str = "true"
    lift: str = "true"
    unit: bool = False


CASES = {
    # The server maps root to nobody, so root does not use the shared directory.
    "processes, guard of root": Case(
        "oom-kill:",
        PROCESSES,
        ("-b", "-e", "ddp_shared_dir="),
        f"mkdir {OF_GUARDS}; printf '[Service]\\nMemoryMax=256M\\n' > {OF_GUARDS}/memory.conf; systemctl daemon-reload",
        f"rm -r {OF_GUARDS} && systemctl daemon-reload",
        unit=True,
    ),
    # An ordinary user may not read the kernel log.
    "processes, guard of a user": Case(
        f"OOM kill in control group /user.slice/{OF_USER}/session-",
        PROCESSES,
        (),
        f"systemctl set-property --runtime {OF_USER} MemoryMax=512M",
        f"systemctl set-property --runtime {OF_USER} MemoryMax=infinity",
    ),
    "containers, guard of a user": Case("", {"memory": "256m", "env": {}}),
}


@pytest.fixture(params=list(CASES))
def case(site: Site, request: pytest.FixtureRequest) -> Iterator[Case]:
    """A case whose limit both machines have for the duration of the test."""
    case = CASES[str(request.param)]
    for host in RANKS:
        site.cluster.on(host, case.limit)
    try:
        yield case
    finally:
        for host in RANKS:
            site.cluster.on(host, case.lift)


def test_the_verdict_names_the_rank_and_the_hosts_are_clean(
    site: Site, case: Case, request: pytest.FixtureRequest
) -> None:
    name = f"eats-{secrets.token_hex(3)}"
    path = write_job(site.cluster, "eats", **case.job, command=["python3", "-c", EATS], host_timeout="3m")
    with timed(f"command to end: {request.node.name}"):
        done = site.play("run", str(path), "--name", name, "--json", *case.options)
    document = json.loads((site.home / "runs" / name / "run.json").read_text())
    assert done.returncode == 137, (done.stderr[-3000:], document)
    verdict = document["verdict"]
    assert (verdict["kind"], verdict["rank"], verdict["host"]) == ("rank_failed", 1, "vm2")
    assert "out of memory" in verdict["message"]
    assert case.kernel in " ".join(verdict["kernel"])
    waited, ate = document["ranks"]
    assert (ate["oom"], ate["exit_code"], ate["stopped"]) == (True, 137, False)
    assert (waited["oom"], waited["host"], waited["stopped"]) == (False, "vm1", True)
    if case.unit:
        assert_unit_lived(site, name)
    assert_clean(site)


def assert_unit_lived(site: Site, run: str) -> None:
    """systemd saw the kernel kill a process of the guard's unit, and the unit went on to its own end."""
    told = site.cluster.on("vm2", f"journalctl --unit 'ddp-play-{run}.*' --output=cat --no-pager")
    assert "killed by the OOM killer" in told
    assert "Failed with result" not in told
    assert "Deactivated successfully" in told


def assert_clean(site: Site) -> None:
    for host in RANKS:
        assert site.cluster.on(host, "systemctl list-units --all --plain --no-legend 'ddp-play-*'") == ""
        assert site.cluster.on(host, "docker ps --all --quiet --filter label=ddp-play.run") == ""
        assert site.cluster.on(host, "pgrep --full 'time[.]sleep' || true") == ""
        assert site.cluster.on(host, f"find {' '.join(STATE)} -mindepth 1 2>/dev/null || true") == ""
