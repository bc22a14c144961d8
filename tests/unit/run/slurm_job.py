"""A run inside a Slurm job: its bundle as the job's script finds it, and commands that answer as Slurm does."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.slurm_commands import Answer
from ddp_play.run import allocated_controller

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

REQUEST = {"cwd": "/", "playbook": "/dev/null", "inventory": ["/dev"], "options": ["--extra-vars", "a=1"]}


def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPaths]:
    """Of a run that waits, in the environment of job 12; SIGTERM is handled as before afterwards."""
    for name, value in (("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_MEM_PER_CPU", "1")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DDP_PLAY_ENGINE", "")
    monkeypatch.setenv("DDP_PLAY_REPORT", "no")
    monkeypatch.setattr(allocated_controller, "CAUSE_S", 0.0)
    made = RunPaths(tmp_path / "calm-otter")
    made.create()
    made.engine.mkdir()
    write_json(made.run, {"id": "calm-otter", "status": "waiting", "request": REQUEST})
    before = signal.getsignal(signal.SIGTERM)
    yield made
    signal.signal(signal.SIGTERM, before)


def slurm(*words: str) -> Answer:
    """What Slurm says to `scontrol show ...` of a job that its partition may cancel for another."""
    said = {
        "hostnames": "n1\nn2\n",
        "config": "TaskPlugin              = task/affinity,task/cgroup\n",
        "job": "JobState=COMPLETING Requeue=1 Partition=low",
        "partition": "PartitionName=low PreemptMode=CANCEL",
    }
    return Answer(0, said[words[2]], "")


def ends(monkeypatch: pytest.MonkeyPatch, **document: Any) -> None:
    """The background process writes this and ends at once."""

    def start(paths: RunPaths, *, take_over: bool = False) -> None:
        write_json(paths.run, {**read_json(paths.run), **document})

    monkeypatch.setattr(allocated_controller, "_start", start)
