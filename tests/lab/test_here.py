"""Rank containers on this very machine: the local inventory, an image built here, no SSH."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.endings import kill_each
from tests.waiting import wait_until

from .conftest import Lab, build_turn
from .rank_jobs import SLIM

pytestmark = pytest.mark.timeout(1800)  # its hosts, and the images that another test builds, are in it

ROOT = Path(__file__).resolve().parents[2]
LOCAL = str(ROOT / "inventory" / "local")
TORCH_IMAGE = "ddp-play-rank:latest"


@pytest.fixture
def here(lab_home: Path, tmp_path: Path) -> Lab:
    """The command with a home of this test's own; no lab is brought up."""
    return Lab("here", tmp_path)


@pytest.fixture(scope="session")
def torch_image(lab_home: Path) -> str:
    """The rank image with torch, built without a registry."""
    with build_turn():
        done = Lab("build", lab_home).play("image", "build", "--offline", "--tag", TORCH_IMAGE, timeout_s=900)
    assert done.returncode == 0, done.stderr
    return TORCH_IMAGE


@pytest.fixture(scope="session")
def slim_image(lab_home: Path) -> str:
    """The rank image without torch."""
    Lab("build", lab_home).build_slim_image()
    return SLIM


def containers() -> str:
    """Every container of ours, running or not."""
    command = ["docker", "ps", "-aq", "--filter", "label=ddp-play.run"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def script(tmp_path: Path, text: str, image: str) -> str:
    """A job that runs one Python script in containers."""
    source = tmp_path / "code"
    source.mkdir()
    (source / "own.py").write_text(text)
    variables = {"image": image, "source": str(source), "command": ["python3", "own.py"]}
    roles = [{"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{k}": v for k, v in variables.items()}}]
    path = tmp_path / "job.yml"
    path.write_text(json.dumps([{"hosts": "ranks", "gather_facts": False, "roles": roles}]))
    return str(path)


def test_the_demo_in_containers(here: Lab, torch_image: str) -> None:
    train = str(ROOT / "playbooks" / "train.yml")
    done = here.play("run", train, "-i", LOCAL, "-e", f"ddp_job_image={torch_image}", "--name", "demo")
    assert done.returncode == 0, done.stderr
    result = json.loads((here.home / "runs" / "demo" / "results" / "rank-1.json").read_text())
    assert result["accuracy"] >= 0.97
    assert containers() == ""


def test_two_hundred_megabytes_of_anything(here: Lab, tmp_path: Path, slim_image: str) -> None:
    text = (
        "import hashlib, os, random\nrandom.seed(int(os.environ['RANK']))\nblock = random.randbytes(1 << 20)\n"
        "seen = hashlib.sha256()\nfor i in range(200):\n    os.write(1, block)\n    seen.update(block)\n"
        "open('digest-' + os.environ['RANK'], 'w').write(seen.hexdigest())\n"
    )
    done = here.play("run", script(tmp_path, text, slim_image), "-i", LOCAL, "--ranks", "none", "--name", "loud")
    assert done.returncode == 0, done.stderr
    run = here.home / "runs" / "loud"
    for rank in (0, 1):
        log = (run / "logs" / f"rank-{rank}.log").read_bytes()
        digest = (run / "artifacts" / "localhost" / f"digest-{rank}").read_text()
        assert (len(log), hashlib.sha256(log).hexdigest()) == (200 << 20, digest)
    assert containers() == ""


def test_a_killed_controller_and_attach(here: Lab, tmp_path: Path, slim_image: str) -> None:
    text = "import os, time\nfor i in range(40):\n    print(os.environ['RANK'], i)\n    time.sleep(0.3)\n"
    here.play("run", script(tmp_path, text, slim_image), "-i", LOCAL, "-d", "--name", "orphan")
    log = here.home / "runs" / "orphan" / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and b"1 5\n" in log.read_bytes())
    kill_controller(here)
    done = here.play("attach", "orphan")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        text = (here.home / "runs" / "orphan" / "logs" / f"rank-{rank}.log").read_text()
        assert text == "".join(f"{rank} {i}\n" for i in range(40))
    assert containers() == ""


def kill_controller(lab: Lab) -> None:
    """SIGKILL for everything on the controller's side of this home; the guards, on the host's side, live on."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment, words = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        ours = f"DDP_PLAY_HOME={lab.home}".encode() in environment and int(entry.name) != os.getpid()
        if ours and b"guard" not in words:
            kill_each([int(entry.name)])


def test_a_container_removed_from_outside(here: Lab, tmp_path: Path, slim_image: str) -> None:
    job = script(tmp_path, "import time\nprint('up')\ntime.sleep(600)\n", slim_image)
    here.play("run", job, "-i", LOCAL, "-d", "--name", "robbed")
    log = here.home / "runs" / "robbed" / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"up\n")
    before = time.time()
    token = json.loads((here.home / "runs" / "robbed" / "run.json").read_text())["token"]
    subprocess.run(["docker", "rm", "-f", f"ddp-robbed.{token}-a1-r1"], check=True, capture_output=True)
    done = here.play("attach", "robbed")
    assert done.returncode not in (0, 130), done.stderr
    document = json.loads((here.home / "runs" / "robbed" / "run.json").read_text())
    assert document["verdict"]["rank"] == 1
    assert document["ended"] - before < 20
    assert containers() == ""


def test_what_containers_cannot_do_is_said_before_the_start(here: Lab, tmp_path: Path, slim_image: str) -> None:
    job = script(tmp_path, "print('never')\n", slim_image)
    no_image = here.play(
        "run", job, "-i", LOCAL, "-e", "ddp_job_image=nowhere/none:1", "-e", "ddp_job_image_pull=never"
    )
    assert no_image.returncode == 69
    assert "image nowhere/none:1 is missing" in no_image.stderr
    environment = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    no_engine = subprocess.run(
        ["env", *(f"{k}={v}" for k, v in environment.items()), "ddp-play", "run", job, "-i", LOCAL],
        env={**here.environment, "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert no_engine.returncode == 69, no_engine.stderr
    assert "no Docker engine answers" in no_engine.stderr
    bad_mount = here.play("run", job, "-i", LOCAL, "-e", '{"ddp_job_mounts": ["/no/such/dir:/data"]}')
    assert bad_mount.returncode == 69
    assert "/no/such/dir" in bad_mount.stderr
    assert containers() == ""
