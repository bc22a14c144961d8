"""`ddp-play doctor PLAYBOOK` on this machine: a job that can run, and jobs of which one thing is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.run.conftest import LOCAL, Done, Play
from tests.schemas import check

pytestmark = [pytest.mark.dist, pytest.mark.runner]
LONG = pytest.mark.long


def of_job(done: Done) -> dict[str, dict[str, Any]]:
    """The findings about the job, by check."""
    check("doctor", done.json)
    return {row["check"].removeprefix("job "): row for row in done.json["findings"] if row["check"].startswith("job ")}


@pytest.fixture
def source(play: Play) -> Path:
    play.write("src/train.py", "print('hello')")
    return play.cwd / "src"


def test_a_job_that_can_run_runs(play: Play, source: Path) -> None:
    job = play.job({"command": [sys.executable, "train.py"], "source": str(source), "port_range": "29500-29600"})
    done = play("doctor", job, "-i", LOCAL, "--json")
    found = of_job(done)
    assert {name: row["status"] for name, row in found.items() if row["status"] not in ("ok", "warn")} == {
        "port": "not checked"
    }
    assert found["script"]["value"] == "train.py"
    assert found["plan"]["where"] == ["localhost"]
    assert "torch 2." in found["python"]["value"]
    assert not (play.home / "runs").exists(), "no run was made"
    assert not (play.home / "facts").exists(), "the facts of plan --cached stay"
    assert play("run", job, "-i", LOCAL).code == 0


@pytest.mark.parametrize(
    ("change", "host", "name", "value"),
    [
        ({"command": [sys.executable, "trian.py"]}, {}, "script", "trian.py is not in what is copied"),
        ({"source": "/no/such/tree"}, {}, "source", "/no/such/tree is not a directory"),
        ({}, {"ddp_shared_dir": "/no/such/mount"}, "shared dir", "/no/such/mount: "),
        pytest.param({}, {"ddp_python": "/no/such/python"}, "runtime", "/no/such/python", marks=LONG),
        pytest.param({"image": "no-such:image", "image_pull": "never"}, {}, "runtime", "", marks=LONG),
        pytest.param({"backend": "nccl", "ranks_per_host": 9000}, {}, "gpus", "one rank per GPU", marks=LONG),
    ],
    ids=["script", "source", "shared", "python", "image", "gpus"],
)
def test_what_is_wrong_has_its_remedy_and_the_run_refuses_it(
    play: Play, source: Path, change: dict[str, Any], host: dict[str, str], name: str, value: str
) -> None:
    job = play.job({"command": [sys.executable, "train.py"], "source": str(source), "gpus": "auto", **change})
    options = [word for key, text in host.items() for word in ("-e", f"{key}={text}")]
    done = play("doctor", job, "-i", LOCAL, "--json", *options)
    row = of_job(done)[name]
    assert (done.code, done.json["exit_class"]) == (1, "check_failed")
    assert (row["status"], value in row["value"], bool(row["command"])) == ("fail", True, True), row
    assert play("run", job, "-i", LOCAL, *options).code != 0


def test_a_host_that_cannot_be_asked_ends_with_69(play: Play, source: Path) -> None:
    job = play.job({"command": [sys.executable, "train.py"], "source": str(source)})
    inventory = play.write("hosts", "[ranks]\ngone ansible_host=127.0.0.1 ansible_port=1 ansible_user=nobody\n")
    done = play("doctor", job, "-i", inventory, "--json")
    assert (done.code, done.json["exit_class"]) == (69, "host_not_ready")
    assert "gone" in of_job(done)["plan"]["value"]
