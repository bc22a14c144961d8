"""The main job on three real hosts with 2, 1 and 1 slots, in rank containers, over real SSH."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ddp_play.planning.plan_document import ranks_by_host
from tests.endings import kill_each
from tests.waiting import wait_until

from .conftest import COMMAND, Lab
from .rank_jobs import document, fresh, job, train


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("method", ["env", *(pytest.param(name, marks=pytest.mark.long) for name in ("tcp", "file"))])
def test_training_over_three_hosts(torch_on_hosts: Lab, tmp_path: Path, method: str) -> None:
    lab = torch_on_hosts
    name = fresh(f"train-{method}")
    done = lab.play("run", train(tmp_path, init_method=method), "-i", str(lab.inventory), "--name", name)
    assert done.returncode == 0, done.stderr
    results = [
        json.loads((lab.home / "runs" / name / "results" / f"rank-{rank}.json").read_text()) for rank in range(4)
    ]
    assert {row["world_size"] for row in results} == {4}
    assert len({row["parameters_sha256"] for row in results}) == 1
    plan = json.loads((lab.home / "runs" / name / "plan.json").read_text())
    assert list(map(list, ranks_by_host(plan).values())) == [[0, 1], [2], [3]]
    assert plan["init_url"].split(":")[0] == method


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.long
def test_a_host_that_is_down_at_start(lab3: Lab, tmp_path: Path) -> None:
    subprocess.run(["docker", "pause", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)
    try:
        path = job(tmp_path, {"command": ["true"]})
        quick = ["-e", "ansible_ssh_timeout=3"]
        done = lab3.play("run", path, "-i", str(lab3.inventory), *quick)
        assert done.returncode == 69
        assert "h3:" in done.stderr
        done = lab3.play("run", job(tmp_path, {"command": ["true"], "hosts": "2.."}), "-i", str(lab3.inventory), *quick)
        assert done.returncode == 0, done.stderr
        assert "left out h3" in done.stderr
    finally:
        subprocess.run(["docker", "unpause", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)


@pytest.mark.usefixtures("clean_hosts")
def test_detach_here_attach_there_and_plain_ansible(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("away")
    path = job(tmp_path, {"command": ["sh", "-c", "echo begun; sleep 8; echo ended"]})
    done = lab3.play("run", path, "-i", str(lab3.inventory), "-d", "--name", name)
    assert done.stdout.strip() == name
    elsewhere = subprocess.run(
        [COMMAND, "attach", name],
        cwd="/",
        env=lab3.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert (lab3.home / "runs" / name / "logs" / "rank-3.log").read_text() == "begun\nended\n"
    plain = subprocess.run(
        [str(Path(COMMAND).with_name("ansible-playbook")), "-i", str(lab3.inventory), path],
        env=lab3.environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stdout


@pytest.mark.usefixtures("clean_hosts")
def test_first_failure_on_one_host_ends_all(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("seven")
    path = job(tmp_path, {"command": ["sh", "-c", "test $RANK = 3 && { sleep 2; echo why; exit 7; }; sleep 600"]})
    done = lab3.play("run", path, "-i", str(lab3.inventory), "--name", name)
    assert done.returncode == 7, done.stderr
    ended = document(lab3, name)
    assert (ended["verdict"]["rank"], ended["verdict"]["host"]) == (3, "h3")
    assert ended["verdict"]["tail"] == ["why"]
    failed = next(row["ended"] for row in ended["ranks"] if row["rank"] == 3)
    assert max(row["ended"] for row in ended["ranks"]) - failed < 25  # the others sleep ten minutes


@pytest.mark.usefixtures("clean_hosts")
def test_a_killed_controller_and_attach(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("orphan")
    path = job(tmp_path, {"command": ["sh", "-c", "for i in $(seq 40); do echo $RANK $i; sleep 0.4; done"]})
    lab3.play("run", path, "-i", str(lab3.inventory), "-d", "--name", name)
    log = lab3.home / "runs" / name / "logs" / "rank-3.log"
    wait_until(lambda: log.exists() and b"3 5\n" in log.read_bytes())
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"DDP_PLAY_HOME={lab3.home}".encode() in environment and int(entry.name) != os.getpid():
            kill_each([int(entry.name)])
    done = lab3.play("attach", name)
    assert done.returncode == 0, done.stderr
    for rank in range(4):
        text = (lab3.home / "runs" / name / "logs" / f"rank-{rank}.log").read_text()
        assert text == "".join(f"{rank} {i}\n" for i in range(1, 41))
