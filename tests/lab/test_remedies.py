"""Remedies for hosts with engines: the failure is on h2 and h3, and the command of the message mends both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab
from .rank_jobs import SLIM, job

KEPT = "ddp-play-rank:kept"


@dataclass(frozen=True)
class Case:
    """`ill` is done by root on h2 and h3; `command` is a pattern of the command in the message."""

    ill: str
    code: int
    says: str
    command: str
    variables: dict[str, Any] = field(default_factory=dict)
    everywhere: str = ""  # where the message tells to do something on the hosts


CASES = {
    "an image that hosts lack": Case(
        f"docker tag {SLIM} {KEPT}; docker rmi {SLIM}",
        69,
        f"h2, h3: image {SLIM} is missing and ddp_job_image_pull is never",
        rf"ddp-play image load -i \S+ --limit h2,h3 --image {SLIM}",
        {"image_pull": "never"},
    ),
    "an image that no registry has": Case(
        f"docker tag {SLIM} {KEPT}; docker rmi {SLIM}",
        69,
        f"cannot pull {SLIM}",
        rf"ddp-play image load -i \S+ --limit h2,h3 --image {SLIM}",
    ),
    "an engine that is stopped": Case(
        "systemctl stop docker.socket docker.service",
        69,
        "h2, h3: no Docker engine answers on",
        r"ddp-play provision -i \S+ --limit h2,h3 --tags docker_engine",
    ),
    "a user outside group docker": Case(
        "gpasswd -d ops docker",
        69,
        "h2, h3: no permission on",
        r"ddp-play provision -i \S+ --limit h2,h3 --tags docker_engine -e '[^']+'",
    ),
    "the source of a mount": Case(
        "rm -rf /srv/remedy-data",
        69,
        "bind source path does not exist: /srv/remedy-data",
        r"make /srv/remedy-data on h\d(?:,h\d)*",
        {"mounts": ["/srv/remedy-data:/data"]},
        everywhere="mkdir -p /srv/remedy-data",
    ),
}
WELL = (
    f"systemctl start docker.service; usermod -aG docker ops; docker tag {KEPT} {SLIM}; docker rmi {KEPT}; "
    "rm -rf /srv/remedy-data"
)


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("name", CASES)
def test_the_command_of_the_message_mends_all_hosts(lab3: Lab, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    words = ["run", job(tmp_path, {"command": ["true"], **case.variables}), "-i", str(lab3.inventory)]
    try:
        forget_logins(lab3)
        for host in ("h2", "h3"):
            lab3.on(host, case.ill, user="root")
        forget_logins(lab3)
        failed = lab3.play(*words)
        assert failed.returncode == case.code, failed.stderr
        assert case.says in failed.stderr
        told = re.search(case.command, failed.stderr)
        assert told, failed.stderr
        if case.everywhere:
            for host in ("h1", "h2", "h3"):
                lab3.on(host, case.everywhere, user="root")
        else:
            mended = shell(lab3, told[0])
            assert mended.returncode == 0, (told[0], mended.stdout, mended.stderr)
        done = lab3.play(*words)
        assert done.returncode == 0, done.stderr
    finally:
        for host in ("h1", "h2", "h3"):
            lab3.on(host, f"({WELL}) >/dev/null 2>&1; true", user="root")


def forget_logins(lab: Lab) -> None:
    """End the connections that are open: a login has the groups that its user had when it began."""
    for host in ("h2", "h3"):
        lab.on(host, "pkill -u ops sshd; true", user="root")


def shell(lab: Lab, command: str) -> subprocess.CompletedProcess[str]:
    """A command of a message, as the user's shell runs it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], env={**lab.environment, "PATH": path}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=400,
    )  # fmt: skip
