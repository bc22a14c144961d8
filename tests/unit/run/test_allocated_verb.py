"""A verb inside an allocation: the command line it gets, its output, and its exit code. Whole ones: tests/slurm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.verb_paths import VerbPaths
from ddp_play.engines.slurm_commands import Answer
from ddp_play.errors import HostNotReady
from ddp_play.run import allocated_verb
from ddp_play.run.allocated_verb import run_verb
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VerbPaths]:
    for name, value in (("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-2]"), ("DDP_PLAY_ENGINE", "")):
        monkeypatch.setenv(name, value)
    before = signal.getsignal(signal.SIGTERM)
    made = VerbPaths(tmp_path / "check-calm-otter")
    made.root.mkdir()
    write_json(made.order, {"argv": ["--version"], "cwd": str(tmp_path)})
    yield made
    signal.signal(signal.SIGTERM, before)


def slurm(*words: str) -> Answer:
    said = {"hostnames": "n1\nn2\n", "config": "TaskPlugin = task/none\n", "job": "JobState=RUNNING"}
    return Answer(0, said[words[2]], "")


def test_the_verb_runs_on_the_nodes_and_its_output_is_in_files(paths: VerbPaths) -> None:
    write_json(paths.order, {**read_json(paths.order), "argv": ["inventory", "list", "--json"]})
    code = run_verb(paths, slurm)
    assert code == 64, "no such verb: what typer says is the verb's own"
    assert "error" in paths.err.read_text()
    groups = read_json(paths.hosts)
    assert list(groups["ranks"]["hosts"]) == ["n1", "n2"]


def test_a_directory_that_the_node_lacks_is_named(paths: VerbPaths) -> None:
    write_json(paths.order, {"argv": [], "cwd": "/no/such/place"})
    with pytest.raises(HostNotReady, match="has no /no/such/place"):
        run_verb(paths, slurm)


WAITS = """
import pathlib, signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
pathlib.Path("ready").touch()
until = time.monotonic() + 20
while not heard and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.3)
sys.exit(10 + len(heard))
"""


@pytest.mark.parametrize(
    ("tracking", "state", "code"),
    [
        ("proctrack/cgroup", "COMPLETING", 11),
        ("proctrack/cgroup", "RUNNING", 11),
        ("proctrack/linuxproc", "RUNNING", 11),
        ("proctrack/linuxproc", "COMPLETING", 137),  # Slurm signals the verb itself
    ],
)
def test_a_verb_hears_once_that_its_job_ends(
    paths: VerbPaths, monkeypatch: pytest.MonkeyPatch, tracking: str, state: str, code: int
) -> None:
    said = {
        "hostnames": "n1\n",
        "config": f"ProctrackType           = {tracking}\nTaskPlugin = x\n",
        "job": f"JobState={state}",
    }
    started: list[Any] = []
    popen = subprocess.Popen

    def start(_argv: list[str], **options: Any) -> Any:
        started.append(popen([sys.executable, "-c", WAITS], **options))
        return started[0]

    def end() -> None:
        wait_until((paths.root.parent / "ready").exists, what="the start of the verb")
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.1)
        if code == 137:
            started[0].kill()

    monkeypatch.setattr("ddp_play.run.allocated_verb.subprocess.Popen", start)
    ender = threading.Thread(target=end)
    ender.start()
    found = run_verb(paths, lambda *words: Answer(0, said[words[2]], ""))
    ender.join()
    assert (found if found >= 0 else 128 - found) == code


def test_the_exit_code_is_in_the_directory_too(paths: VerbPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["allocated_verb", str(paths.root)])
    monkeypatch.setattr(allocated_verb, "run_verb", lambda _paths, _ask: -9)
    with pytest.raises(SystemExit) as ended:
        allocated_verb.main()
    assert (ended.value.code, read_json(paths.end)) == (137, {"code": 137})
