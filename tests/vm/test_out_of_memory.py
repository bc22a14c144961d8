"""A rank that runs out of memory on a machine with cgroup v2 and systemd: the rank ends, its guard judges."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from .conftest import Site
from .machines import RANKS
from .site import write_job

# Rank 1 takes memory until the kernel ends it; the other ranks wait to be stopped.
EATS = (
    "import os, time\n"
    "taken = []\n"
    "while os.environ['RANK'] == '1':\n"
    "    taken.append(b'x' * (16 << 20))\n"
    "time.sleep(600)\n"
)
PROCESSES: dict[str, Any] = {"image": "", "mounts": [], "runtime": "process", "command": ["python3", "-c", EATS]}
CONTAINERS: dict[str, Any] = {"command": ["python3", "-c", EATS], "memory": "256m", "env": {}}


def test_the_machines_have_the_cgroups_that_this_is_about(site: Site) -> None:
    for host in RANKS:
        assert site.cluster.on(host, "stat -f -c %T /sys/fs/cgroup") == "cgroup2fs"


@pytest.mark.parametrize(
    ("job", "options"),
    [(PROCESSES, ("-b",)), (PROCESSES, ()), (CONTAINERS, ("-b",)), (CONTAINERS, ())],
    ids=["processes of root", "processes of a user", "containers of root", "containers of a user"],
)
def test_the_verdict_says_out_of_memory(site: Site, job: dict[str, Any], options: tuple[str, ...]) -> None:
    """The machine's own memory for processes, their control group's for containers."""
    name = f"eats-{secrets.token_hex(3)}"
    # Rank 1 holds vm2 for a while when it takes all memory of an emulated machine.
    path = write_job(site.cluster, "eats", **job, host_timeout="3m")
    # The server squashes root, who may not write into the shared directory.
    done = site.play("run", str(path), "--name", name, "--json", "-e", "ddp_shared_dir=", *options)
    assert done.returncode == 137, done.stderr[-3000:]
    document = json.loads((site.home / "runs" / name / "run.json").read_text())
    verdict = document["verdict"]
    assert (verdict["rank"], verdict["host"]) == (1, "vm2")
    assert "out of memory" in json.dumps(verdict)
    assert document["ranks"][1]["oom"] is True
    assert document["ranks"][0]["oom"] is False
    for host in RANKS:
        assert site.cluster.on(host, "systemctl list-units --all --plain --no-legend 'ddp-play*'") == ""
        assert site.cluster.on(host, "docker ps --all --quiet --filter label=ddp-play.run") == ""
        assert site.cluster.on(host, "ls /var/lib/ddp-play/runs /home/ops/.local/state/ddp-play/host/runs") == (
            "/home/ops/.local/state/ddp-play/host/runs:\n\n/var/lib/ddp-play/runs:"
        )
