"""The gang starts again after failures of the infrastructure, from its newest complete checkpoint, and only then."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.run.conftest import ROOT, Play, living, wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

TRAIN = ["python", "-m", "trainer", "train", "--epochs", "2", "--checkpoint-every", "5", "--sleep-per-step", "0.05"]


def fleet(play: Play, *names: str, spares: tuple[str, ...] = ()) -> Path:
    """Several hosts with one slot each that are all this machine, and a directory that they share."""
    shared = play.cwd / "shared"
    shared.mkdir(exist_ok=True)
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "ddp_python": "{{ ansible_playbook_python }}",
        "ddp_shared_dir": str(shared),
        "ddp_slots": 1,
    }
    groups = {"ranks": {"hosts": dict.fromkeys(names)}, "spares": {"hosts": dict.fromkeys(spares)}}
    return play.write("fleet.yml", json.dumps({"all": {"vars": common, "children": groups}}))


def job(play: Play, **variables: Any) -> Path:
    """A job of the reference trainer that restarts."""
    wanted = {"source": str(ROOT), "source_include": ["trainer"], "command": TRAIN, "restarts": 1, **variables}
    path = play.job(wanted)
    document = json.loads(path.read_text())
    document[0]["hosts"] = "ranks:spares"
    path.write_text(json.dumps(document))
    return path


def checkpoints(play: Play) -> list[Path]:
    """The complete checkpoints in the shared working directory, oldest first."""
    return sorted((play.cwd / "shared").glob(".ddp-play/*/src/checkpoints/step-*"))


def rank_pids(play: Play, run: str, rank: int, host: str, attempt: int = 1) -> list[int]:
    """The process of one rank."""
    state = play.host_dir / "runs" / run / f"{attempt}.{host}" / "state.json"
    row = json.loads(state.read_text())["ranks"][str(rank)]
    return [row["pid"]] if row["pid"] else []


def guard_pid(play: Play, run: str, host: str, attempt: int = 1) -> int:
    """The guard of a host."""
    state = play.host_dir / "runs" / run / f"{attempt}.{host}" / "state.json"
    return int(json.loads(state.read_text())["guard_pid"])


def digest(run: Path) -> str:
    """What the run trained."""
    return str(json.loads((run / "results" / "rank-0.json").read_text())["parameters_sha256"])


@pytest.fixture
def undisturbed(play: Play) -> str:
    """The parameters that two ranks end with when nothing happens to them."""
    done = play("run", job(play, restarts=0), "-i", fleet(play, "a", "b"))
    assert done.code == 0, done.err
    return digest(play.newest())


def test_a_killed_rank_restarts_the_gang_from_its_checkpoint(play: Play, undisturbed: str) -> None:
    child = play.start("run", job(play), "-i", fleet(play, "a", "b"), "--name", "again")
    wait_until(lambda: len(checkpoints(play)) > 1, what="two checkpoints")
    os.kill(rank_pids(play, "again", 1, "b")[0], signal.SIGKILL)
    torn = checkpoints(play)[-1] / "weights.pt"  # as a crash in the middle of a write leaves it
    torn.write_bytes(torn.read_bytes()[:1000])
    out, err = child.communicate(timeout=120)
    run = play.home / "runs" / "again"
    document = play.document(run)
    assert child.returncode == 0, err
    assert "resuming after step" in out
    assert digest(run) == undisturbed
    first = document["attempts"][0]
    assert (first["attempt"], first["verdict"], first["fault"]) == (1, "rank_failed", "b")
    assert first["reason"] == "rank 1 on b was killed from outside"
    assert document["attempt"] == 2
    archived = run / "attempts" / "1"
    assert json.loads((archived / "outcome.json").read_text())["verdict"]["rank"] == 1
    assert (archived / "logs" / "rank-0.log").stat().st_size
    assert (archived / "plan.json").exists()
    assert (archived / "env" / "rank-1.env").exists()
    assert "DDP_PLAY_ATTEMPT=2" in (run / "env" / "rank-1.env").read_text()
    assert play.left_on_host() == []
    assert list((play.cwd / "shared").glob(".ddp-play/*")) == []
    assert not living(str(play.host_dir))
