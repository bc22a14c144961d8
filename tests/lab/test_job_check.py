"""Defects of hosts as a run meets them: refused before anything starts, replaced by a spare, or told as a warning."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

from tests import schemas

from .check_runs import defect_named, seeded
from .rank_jobs import document, fresh, job

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from .conftest import Lab

# Defect, and what is said of it.
REFUSED = (
    ("small shared memory", ("h1: shared memory: ", "of 16 MiB free (limit: 512 MiB", "mount -o remount")),
    ("few open files", ("h2: open files: at most 256", "raise nofile in /etc/security/limits.d")),
    ("few ephemeral ports", ("h1: ephemeral ports: 20 ports",)),
    ("another shared directory", ("h3: shared by all: files of other hosts are not seen within 3 s",)),
    ("shared directory is read-only", ("h2", "Read-only file system")),
    ("ports dropped one way", ("h2 (", "does not reach h1 (", "rendezvous port 29")),
    ("ports dropped from all", ("h1 (", "h2 (", "does not reach h3 (", "check the firewalls")),
    ("other torch", ("the hosts do not have the same torch", "h3: 2.12.1")),
)


def playbook(tmp_path: Path, **variables: Any) -> str:
    """A job of processes that ends at once."""
    source = tmp_path / "source"
    source.mkdir(exist_ok=True)
    (source / "nothing.py").write_text("print('ran')\n")
    wanted = {"runtime": "process", "image": "", "env": {}, "source": str(source), "command": ["python3", "nothing.py"]}
    return job(tmp_path, {**wanted, **variables})


def started(lab: Lab, tmp_path: Path, name: str, **variables: Any) -> subprocess.CompletedProcess[str]:
    """`ddp-play run` of a job that ends at once, over a new login: limits are those of a login."""
    with tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        environment = {**lab.environment, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        words = ["run", playbook(tmp_path, **variables), "-i", str(lab.inventory), "--name", name]
        return lab.play(*words, environment=environment)


@pytest.mark.parametrize(("name", "says"), REFUSED, ids=lambda part: part if isinstance(part, str) else "")
def test_a_defect_refuses_the_run_before_anything_starts(
    check_lab: Lab, tmp_path: Path, name: str, says: tuple[str, ...]
) -> None:
    defect = defect_named(name)
    run = fresh("unfit")
    with seeded(check_lab, defect):
        done = started(check_lab, tmp_path, run)
    told = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 69, told
    for text in says:
        assert text in told, told
    assert "ran" not in done.stdout
    kept = document(check_lab, run)
    assert kept["status"] == "failed"
    assert "started" not in kept
    assert check_lab.on("h1", "find /srv/ddp-play-shared -mindepth 1 ! -name .ddp-play") == ""


def test_a_spare_host_takes_the_place_of_an_unfit_one(check_lab: Lab, tmp_path: Path) -> None:
    defect = defect_named("few open files")
    run = fresh("spare")
    with seeded(check_lab, defect):
        done = started(check_lab, tmp_path, run, hosts=2, spares=["h3"])
    told = " ".join(done.stderr.split())
    assert done.returncode == 0, done.stderr
    assert "host h2 is not fit for this job: open files: at most 256" in told
    assert "replacement host: h3" in told
    assert document(check_lab, run)["hosts"] == ["h1", "h3"]
    left_out = json.loads((check_lab.home / "runs" / run / "plan.json").read_text())["left_out"]
    assert "open files: at most 256" in dict(left_out)["h2"]


def test_a_host_whose_ports_are_closed_for_all_is_replaced_too(check_lab: Lab, tmp_path: Path) -> None:
    defect = defect_named("ports dropped from all")
    run = fresh("spare")
    with seeded(check_lab, defect):
        done = started(check_lab, tmp_path, run, spares=["h1"], hosts=2)
    assert done.returncode == 69, done.stderr  # h2 and h3: of a pair it cannot be told which end it is
    assert "does not reach h3" in done.stderr


def test_what_ranks_can_bear_is_a_warning_and_none_switches_the_check_off(check_lab: Lab, tmp_path: Path) -> None:
    loopback = defect_named("own name is loopback")
    with seeded(check_lab, loopback):
        done = started(check_lab, tmp_path, fresh("warned"))
    assert done.returncode == 0, done.stderr
    assert "h2: own name: h2 is 127.0.1.1" in " ".join(done.stderr.split())
    memory = defect_named("small shared memory")
    with seeded(check_lab, memory):
        done = started(check_lab, tmp_path, fresh("unchecked"), check="none")
    assert done.returncode == 0, done.stderr


def test_a_job_is_checked_on_its_own_ports_and_hosts(check_lab: Lab, tmp_path: Path) -> None:
    defects = [defect_named(name) for name in ("ports dropped one way", "few open files")]
    common = ["-i", str(check_lab.inventory), "--json"]
    with seeded(check_lab, *defects), tempfile.TemporaryDirectory(prefix="cp-") as sockets:
        environment = {**check_lab.environment, "ANSIBLE_SSH_CONTROL_PATH_DIR": sockets}
        done = check_lab.play("check", playbook(tmp_path, hosts=2), *common, environment=environment)
        document = json.loads(done.stdout)
        schemas.check("check", document)
        others = playbook(tmp_path, hosts=2, port_range="31000-31010")
        elsewhere = json.loads(check_lab.play("check", others, *common, environment=environment).stdout)
    assert done.returncode == 1
    assert document["hosts"] == ["h1", "h2"]
    failed = {row["check"]: row["where"] for row in document["findings"] if row["result"] == "fail"}
    assert failed == {"ports": ["h1", "h2"], "open files": ["h2"]}
    assert any(row["check"] == "job plan" and row["result"] == "pass" for row in document["findings"])
    assert [row["check"] for row in elsewhere["findings"] if row["result"] == "fail"] == ["open files"]
