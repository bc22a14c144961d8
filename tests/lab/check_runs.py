"""Runs of `ddp-play check` on a lab, and defects made and mended on its hosts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lab
    from .host_defects import Defect

HOSTS = ("h1", "h2", "h3")


def values(lab: Lab) -> dict[str, str]:
    """Names and addresses for the commands of defects."""
    found = {host: f"ddp-play-{lab.name}-{host}" for host in HOSTS}
    shape = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
    for number, host in enumerate(HOSTS, 1):
        done = subprocess.run(
            ["docker", "inspect", "-f", shape, found[host]], check=True, capture_output=True, text=True
        )
        found[f"a{number}"] = done.stdout.strip()
    return {**found, "net": found["a1"].rpartition(".")[0], "cpus": str(os.cpu_count())}


def shell(command: str, known: dict[str, str]) -> None:
    """Run a defect's command; it must succeed."""
    for name, value in known.items():
        command = command.replace(f"{{{name}}}", value)
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"


@contextlib.contextmanager
def seeded(lab: Lab, *defects: Defect) -> Iterator[dict[str, str]]:
    """The defects on the hosts, mended at the end."""
    known, made = values(lab), []
    try:
        for defect in defects:
            made.append(defect)
            shell(defect.seed, known)
        yield known
    finally:
        for defect in reversed(made):
            with contextlib.suppress(AssertionError):
                shell(defect.mend, known)


def run_check(lab: Lab, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and findings that are no pass and that count, each over a new login: limits are those of a login."""
    with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        environment = {**lab.environment, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        words = ["check", "-i", str(lab.inventory), "--json", *options]
        done = lab.play(*words, environment=environment)
    rows = json.loads(done.stdout)["findings"]
    return done.returncode, [row for row in rows if row["result"] in ("fail", "warn") or row["broken"]]


def expected(defect: Defect) -> tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """What identifies the finding of a defect."""
    return defect.check, defect.result, defect.where, defect.ways


def found(row: dict[str, Any]) -> tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The same of a finding."""
    ways = tuple((way["from"], way["to"]) for way in row.get("directions", ()))
    return row["check"], row["result"], tuple(row["where"]), ways


def compare(rows: list[dict[str, Any]], defects: tuple[Defect, ...], known: dict[str, str]) -> None:
    """Each defect has its finding, and there is no other one."""
    assert sorted(map(found, rows)) == sorted(map(expected, defects)), json.dumps(rows, indent=1)
    for defect in defects:
        row = next(row for row in rows if found(row) == expected(defect))
        says = defect.says.replace("{net}", known["net"]).replace("{cpus}", known["cpus"])
        assert says in row["value"], f"{defect}: {row['value']}"
        wanted = ("why", "command", "limit", "source", "look") if row["result"] != "not run" else ()
        assert all(row[field] for field in wanted), row
