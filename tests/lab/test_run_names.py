"""Runs among others on real hosts: a name that is taken, and a restart that cannot start."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.lab.conftest import COMMAND, Lab
from tests.lab.rank_jobs import SHARED, SLIM, document, fresh, job
from tests.waiting import wait_until

HOSTS = ("h1", "h2", "h3")


def from_elsewhere(lab: Lab, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with another state directory, as on another login node."""
    environment = {**os.environ, "DDP_PLAY_HOME": str(home)}
    return subprocess.run(
        [COMMAND, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=120,
    )  # fmt: skip


def seen_on_hosts(lab: Lab, name: str) -> list[str]:
    """Everything of a run on every host: containers with their pids, guards, files."""
    script = (
        f"docker ps -q --filter label=ddp-play.run={name}"
        " | xargs -r docker inspect -f '{{.Id}} {{.State.Pid}}';"
        f"pgrep -fa 'guard .*/{name}[.]'; sudo find {SHARED}/.ddp-play /home/ops/.local/state/ddp-play/host/runs"
        " /var/lib/ddp-play/runs"
        " ! -name lease ! -name '*samples.jsonl*' ! -name '.state.json.*' -print 2>/dev/null | sort; true"
    )
    return [lab.on(host, script) for host in HOSTS]


def begin(lab: Lab, tmp_path: Path, name: str, image: str = SLIM, *, restarts: int = 0, ranks: int = 1) -> None:
    """A run in the background whose ranks leave a checkpoint and wait for a file of the test's."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "data.txt").write_text("x")
    command = ["sh", "-c", "echo weights > checkpoint-$RANK; echo begun; while [ ! -e end ]; do sleep 0.2; done"]
    wanted = {"image": image, "command": command, "source": str(tmp_path / "code"), "restarts": restarts}
    path = job(tmp_path, {**wanted, "ranks_per_host": ranks})
    done = lab.play("run", path, "-i", str(lab.inventory), "-d", "--name", name)
    assert done.returncode == 0, done.stderr
    logs = [lab.home / "runs" / name / "logs" / f"rank-{rank}.log" for rank in range(3)]
    wait_until(lambda: all(log.exists() and log.read_bytes() == b"begun\n" for log in logs), timeout_s=60)


def source_on(lab: Lab, name: str) -> str:
    """The run's working directory on the shared file system."""
    return f"{SHARED}/.ddp-play/{name}.{document(lab, name)['token']}/src"


@pytest.mark.usefixtures("clean_hosts")
def test_a_second_controller_or_user_with_the_same_name_is_refused(lab3: Lab, tmp_path: Path) -> None:
    name = fresh("night")
    begin(lab3, tmp_path, name)
    before = seen_on_hosts(lab3, name)
    other = job(tmp_path, {"command": ["echo", "of the second"], "ranks_per_host": 1}, name="other.yml")
    for at, options in enumerate(((), ("--wait",), ("--wait-at-most", "10s"), ("-u", "root"), ("--become",))):
        words = ("run", other, "-i", str(lab3.inventory), "--name", name, *options)
        refused = from_elsewhere(lab3, tmp_path / f"home-{at}", *words)
        assert refused.returncode == 75, (options, refused.stdout, refused.stderr)
        assert f"run {name} of " in refused.stderr
        assert "begun" not in refused.stdout
        swept = from_elsewhere(lab3, tmp_path / f"home-{at}", "gc", "-i", str(lab3.inventory), "--run", name, "--yes")
        assert swept.returncode == 0, swept.stderr
    assert seen_on_hosts(lab3, name) == before
    lab3.on("h1", f"sudo touch {source_on(lab3, name)}/end")
    done = lab3.play("attach", name)
    assert done.returncode == 0, done.stderr
    kept = sorted(path.name for path in (lab3.home / "runs" / name / "artifacts").rglob("checkpoint-*"))
    assert kept == ["checkpoint-0", "checkpoint-1", "checkpoint-2"]


@pytest.mark.usefixtures("clean_hosts")
def test_a_restart_that_is_refused_keeps_the_checkpoints(lab3: Lab, tmp_path: Path) -> None:
    """The image goes away while the ranks run, as an operator's clean-up does; then a rank is killed."""
    name, image = fresh("pruned"), "ddp-play-rank:pruned"
    for host in HOSTS:
        lab3.on(host, f"docker tag {SLIM} {image}")
    begin(lab3, tmp_path, name, image, restarts=1)
    for host in HOSTS:
        lab3.on(host, f"docker rmi {image}")
    lab3.on("h2", f"docker kill $(docker ps -q --filter label=ddp-play.run={name})")
    done = lab3.play("attach", name)
    assert done.returncode == 69, done.stderr
    assert "ddp-play-rank:pruned" in done.stderr
    run = lab3.home / "runs" / name
    kept = sorted(path.name for path in (run / "artifacts").rglob("checkpoint-*"))
    assert kept == ["checkpoint-0", "checkpoint-1", "checkpoint-2"]
    assert [row["path"] for row in json.loads((run / "artifacts.json").read_text())] == kept
    assert document(lab3, name)["left_behind"] == {}
