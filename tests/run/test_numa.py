"""Ranks of a host with two NUMA nodes and a GPU on each: files in the place of sysfs, a nvidia-smi of the test's own.

The CPUs are this machine's, so what the ranks find is what the kernel has bound them to.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.run.conftest import LOCAL, Play

ALLOWED = sorted(os.sched_getaffinity(0))
CAN_MOUNT = os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0
pytestmark = [
    pytest.mark.runner,
    pytest.mark.skipif(not CAN_MOUNT, reason="only root may mount files over sysfs"),
    pytest.mark.skipif(len(ALLOWED) < 2, reason="one CPU cannot be two nodes"),
]
FIRST, REST = str(ALLOWED[0]), ",".join(map(str, ALLOWED[1:]))
SMI = """#!/bin/sh
case "$1" in --query-gpu=index,uuid,name,*) ;; *) exit 0 ;; esac
echo "0, GPU-aaaa, Made Up, 1000, 00000000:18:00.0, 1"
echo "1, GPU-bbbb, Made Up, 1000, 00000000:2A:00.0, 1"
"""
COMMAND = ["sh", "-c", "grep Cpus_allowed_list /proc/self/status; echo $OMP_NUM_THREADS; cat /proc/self/numa_maps"]


@pytest.fixture
def program(play: Play) -> str:
    """`ddp-play` where these files are mounted over sysfs: GPU 0 is on node 1, GPU 1 on node 0."""
    files = {
        "node/node0/cpulist": FIRST,
        "node/node1/cpulist": REST,
        "node/has_memory": "0-1",
        **{f"pci/{name}/vendor": "0x10de" for name in ("0000:18:00.0", "0000:2a:00.0")},
        **{f"pci/{name}/class": "0x030200" for name in ("0000:18:00.0", "0000:2a:00.0")},
        "pci/0000:18:00.0/numa_node": "1",
        "pci/0000:2a:00.0/numa_node": "0",
    }
    for name, text in files.items():
        play.write(f"made-up/{name}", text + "\n")
    executable(play.write("made-up/bin/nvidia-smi", SMI))
    made_up = shlex.quote(str(play.cwd / "made-up"))
    mounts = [
        f"mount --bind {made_up}/node /sys/devices/system/node",
        f"mount --bind {made_up}/pci /sys/bus/pci/devices",
    ]
    inside = " && ".join([*mounts, f'export PATH={made_up}/bin:"$PATH"', 'exec ddp-play "$@"'])
    wrapper = play.write("made-up/play", f'#!/bin/sh\nexec unshare -m sh -c {shlex.quote(inside)} sh "$@"\n')
    return str(executable(wrapper))


def executable(path: Path) -> Path:
    path.chmod(0o755)
    return path


def of_ranks(play: Play) -> list[tuple[str, str, bool]]:
    """CPUs, OMP_NUM_THREADS and whether memory is bound, as each rank found them."""
    found = []
    for rank in (0, 1):
        lines = (play.newest() / "logs" / f"rank-{rank}.log").read_text().splitlines()
        found.append((lines[0].split()[1], lines[1], any(" bind:0 " in line for line in lines[2:])))
    return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # node 1 is not a node of the kernel, which may use its memory as little as a rank
        ({"numa": "node"}, [(REST, str(len(ALLOWED) - 1), False), (FIRST, "1", True)]),
        ({}, [(REST, str(len(ALLOWED) - 1), False), (FIRST, "1", False)]),
        pytest.param({"numa": "none"}, None, marks=pytest.mark.long),
    ],
)
def test_each_rank_runs_on_the_cpus_of_its_gpus_node(
    play: Play, program: str, values: dict[str, Any], expected: list[tuple[str, str, bool]] | None
) -> None:
    job = play.job({"command": COMMAND, "backend": "gloo", **values})
    done = play("run", job, "-i", LOCAL, program=program)
    assert done.code == 0, done.err
    whole = (of_whole(), str(max(1, len(ALLOWED) // 2)), False)
    assert of_ranks(play) == (expected or [whole, whole])
    assert play.left_on_host() == []


def of_whole() -> str:
    """CPUs of this process, as the kernel lists them."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))


def test_the_plan_shows_it(play: Play, program: str) -> None:
    job = play.job({"command": COMMAND, "backend": "gloo", "numa": "node"})
    shown = play("plan", job, "-i", LOCAL, "--rank", "1", program=program).out
    assert next(line for line in shown.splitlines() if line.startswith("localhost ")).split()[4:6] == ["0,1", "node"]
    assert f"rank 1's NUMA node 0: CPUs {FIRST}, memory of node(s) 0" in shown
    row = play("plan", job, "-i", LOCAL, "--rank", "0", "--json", "--cached", program=program).json
    assert row["numa"] == {"node": 1, "cpus": REST, "memory_nodes": ""}


def test_what_is_not_possible_is_refused_with_the_reason(play: Play, program: str) -> None:
    job = play.job({"command": COMMAND, "backend": "gloo", "numa": "socket"})
    (play.cwd / "made-up" / "pci" / "0000:2a:00.0" / "numa_node").write_text("-1\n")
    done = play("run", job, "-i", LOCAL, program=program)
    assert done.code == 69
    assert "localhost: ddp_job_numa is socket, and the kernel does not tell the NUMA node of GPU 1" in done.err
    document = json.loads((play.newest() / "run.json").read_text())
    assert document["status"] == "failed"
