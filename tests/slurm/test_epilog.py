"""The epilog of role slurm, as the cluster of these tests runs it: what of a job's leftovers goes, and what stays."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import engine
from tests.slurm.cluster import EPILOG
from tests.slurm.conftest import PATIENCE_S
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm.cluster import Cluster

MEMORY = Path("/dev/shm")
# Users of the system without a process; jobs of root leave their files to root.
USERS = ("games", "news", "lp", "uucp", "proxy")


@dataclass(frozen=True)
class Job:
    """Runs jobs on one node, and files in memory whose names are this test's."""

    cluster: Cluster
    user: str
    word: str

    def run(self, script: str, user: str = "") -> str:
        """The id of a job that has ended on its node, epilog and all."""
        options = ["--parsable", "--nodelist=n1", "--output=/dev/null", "--chdir=/tmp"]
        options += [f"--uid={user}"] if user else []
        job_id = self.cluster.run("sbatch", *options, "--wrap", script).strip()
        done = ("COMPLETED", "FAILED")
        wait_until(lambda: self.cluster.job(job_id)["JobState"] in done, timeout_s=PATIENCE_S, what="the job's end")
        assert self.cluster.job(job_id)["JobState"] == "COMPLETED"
        wait_until(
            lambda: "idle" in self.cluster.run("sinfo", "-h", "-N", "-n", "n1", "-p", "main", "-o", "%T"),
            timeout_s=PATIENCE_S,
            what="the end of the epilog",
        )
        return job_id

    def left(self) -> set[str]:
        """Names of this test's files that are still in memory."""
        return {path.name for path in MEMORY.glob(f"*{self.word}*")}


@pytest.fixture
def job(cluster: Cluster) -> Iterator[Job]:
    """Afterwards no file of the test is in memory."""
    busy = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends meanwhile
            busy.add(process.stat().st_uid)
    names = {row.pw_name: row.pw_uid for row in pwd.getpwall()}
    free = [name for name in USERS if name in names and names[name] not in busy]
    if not free:
        pytest.skip("no user of the system is without a process")
    for above in (cluster.directory, *cluster.directory.parents[:2]):
        above.chmod(0o711)  # the user reads the script of the job
    made = Job(cluster, free[0], secrets.token_hex(4))
    yield made
    for path in MEMORY.glob(f"*{made.word}*"):
        path.unlink()


def touches(word: str) -> str:
    names = (f"torch_{word}", f"nccl-{word}", f"mine-{word}", f"{word}torch_")
    return "; ".join(f"touch {MEMORY}/{name}" for name in names)


def test_memory_files_of_torch_and_nccl_go_with_the_last_process_of_their_user(job: Job) -> None:
    other = MEMORY / f"torch_other{job.word}"
    other.touch()
    (MEMORY / f"torch_dir{job.word}").mkdir()
    try:
        job.run(touches(job.word), job.user)
        assert job.left() == {f"mine-{job.word}", f"{job.word}torch_", other.name, f"torch_dir{job.word}"}
    finally:
        (MEMORY / f"torch_dir{job.word}").rmdir()


def test_they_stay_while_their_user_has_another_process_there(job: Job) -> None:
    """A file has no name of its job: it may be that of the other process."""
    uid = pwd.getpwnam(job.user).pw_uid
    with subprocess.Popen(["sleep", "600"], user=uid, group=65534, extra_groups=[]) as other:
        try:
            job.run(touches(job.word), job.user)
            assert (MEMORY / f"torch_{job.word}").exists()
        finally:
            other.kill()
    job.run("true", job.user)
    assert not (MEMORY / f"torch_{job.word}").exists()


def test_memory_files_of_root_stay(job: Job) -> None:
    job.run(touches(job.word))
    assert (MEMORY / f"torch_{job.word}").exists()


@pytest.fixture
def image() -> Iterator[str]:
    """An empty image: its containers are created and never started."""
    if not engine.answers():
        pytest.skip("no Docker engine answers")
    name = f"ddp-play-epilog-{secrets.token_hex(4)}:test"
    empty = subprocess.run(["tar", "--create", "--files-from=/dev/null"], capture_output=True, check=True).stdout
    subprocess.run(["docker", "import", "-", name], input=empty, capture_output=True, check=True)
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], capture_output=True, check=True)


def test_containers_with_the_jobs_label_go_and_those_of_others_stay(job: Job, image: str) -> None:
    create = f"docker create --name epilog-{job.word}-%s --label ddp-play.slurm-job=%s {image} true"
    path = f"PATH={os.environ['PATH']}; "
    try:
        job.run(path + create % ("mine", "$SLURM_JOB_ID") + " && " + create % ("other", "0"))
        listed = subprocess.run(
            ["docker", "ps", "--all", "--filter", f"name=epilog-{job.word}", "--format", "{{.Names}}"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert listed.stdout.split() == [f"epilog-{job.word}-other"]
    finally:
        names = [f"epilog-{job.word}-{name}" for name in ("mine", "other")]
        subprocess.run(["docker", "rm", "--force", *names], capture_output=True, check=False)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"SLURM_JOB_ID": "12"},
        {"SLURM_JOB_UID": "61001"},
        {"SLURM_JOB_ID": "12;x", "SLURM_JOB_UID": "61001"},
        {"SLURM_JOB_ID": "12", "SLURM_JOB_UID": "-1"},
    ],
)
def test_without_a_job_it_does_nothing_and_drains_no_node(variables: dict[str, str], tmp_path: Path) -> None:
    """Any other exit code than 0 drains the node."""
    trace = subprocess.run(
        ["sh", "-x", str(EPILOG)], env={"PATH": os.environ["PATH"], **variables}, capture_output=True, check=False
    )
    assert trace.returncode == 0
    assert b"+ exit 0" in trace.stderr
    assert b"find" not in trace.stderr
    assert b"docker" not in trace.stderr


def test_a_hung_engine_drains_no_node_and_is_not_waited_for(tmp_path: Path) -> None:
    """`docker` does not answer: the epilog goes on after its limit."""
    script = EPILOG.read_text()
    (tmp_path / "docker").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "docker").chmod(0o755)
    assert script.count("timeout 20") == 1
    fast = script.replace("timeout 20", "timeout 1").replace("PATH=", f"PATH={tmp_path}:", 1)
    done = subprocess.run(
        ["sh", "-c", fast], env={"SLURM_JOB_ID": "12", "SLURM_JOB_UID": "61001"}, timeout=60, check=False
    )
    assert done.returncode == 0
