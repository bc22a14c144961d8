"""`ddp-play check --level burn-in` in a job's image on hosts of a lab: a short one to its end, and one interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests import schemas
from tests.waiting import wait_until

from .conftest import COMMAND
from .rank_jobs import job

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Lab

HOSTS = ["h1", "h2"]
WITHIN_S = 360  # a round takes most of a minute on a machine with a load of ten for each processor
pytestmark = pytest.mark.usefixtures("clean_hosts")


def words(lab: Lab, tmp_path: Path, within_s: int) -> list[str]:
    path = job(tmp_path, {"hosts": 2, "command": ["python3", "-c", "pass"]})
    return ["check", path, "-i", str(lab.inventory), "--json", "--level", "burn-in", "--within", f"{within_s}s"]


def test_rounds_until_the_time_is_up(torch_on_hosts: Lab, tmp_path: Path) -> None:
    began = time.monotonic()
    done = torch_on_hosts.play(*words(torch_on_hosts, tmp_path, WITHIN_S), timeout_s=WITHIN_S + 60)
    took_s = time.monotonic() - began
    assert done.returncode in (0, 69), done.stdout + done.stderr  # 69: the network had no time on a busy machine
    document = json.loads(done.stdout)
    schemas.check("check", document)
    assert took_s < WITHIN_S * 1.1
    found = document["burn_in"]
    assert found["rounds"] >= 2, done.stderr
    assert done.stderr.count("burn-in ") >= found["rounds"], "each is said"
    rows = {row["check"]: row for row in document["findings"]}
    assert (rows["burn-in"]["result"], rows["burn-in"]["where"]) == ("pass", HOSTS)
    assert rows["repeated results"]["result"] == rows["results of equal hosts"]["result"] == "pass"
    assert all(host["repeats"] > 10 * found["rounds"] for host in found["hosts"].values())


def test_an_interruption_keeps_what_was_found_and_until_then_no_run_starts(torch_on_hosts: Lab, tmp_path: Path) -> None:
    path = job(tmp_path, {"hosts": 3, "command": ["true"]}, "late.yml")
    said, answered = tmp_path / "said", tmp_path / "answered"
    with said.open("w") as errors, answered.open("w") as output:
        process = subprocess.Popen(
            [COMMAND, *words(torch_on_hosts, tmp_path, 600)], env=torch_on_hosts.environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
        )  # fmt: skip
        try:
            wait_until(lambda: ", round 1: " in said.read_text() or process.poll() is not None, timeout_s=300)
            refused = torch_on_hosts.play("run", path, "-i", str(torch_on_hosts.inventory))
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
        finally:
            process.kill()
            process.wait()
    wait_until(lambda: torch_on_hosts.on("h1", "docker ps -aq --filter label=ddp-play.run") == "", timeout_s=60)
    assert code == 69, answered.read_text() + said.read_text()
    assert refused.returncode == 75, refused.stderr
    assert "held by ddp-play check of ops" in refused.stderr
    assert torch_on_hosts.play("run", path, "-i", str(torch_on_hosts.inventory)).returncode == 0
    document = json.loads(answered.read_text())
    schemas.check("check", document)
    assert document["burn_in"]["ended"] == "interrupted"
    row = next(row for row in document["findings"] if row["check"] == "burn-in")
    assert (row["result"], row["broken"]) == ("not run", True)
    assert row["value"].startswith("interrupted after ")
    assert any(row["check"] == "repeated results" and row["result"] == "pass" for row in document["findings"])
