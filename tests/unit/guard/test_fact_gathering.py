"""What a host reports about itself: this machine, with an engine on a Unix socket."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import fact_gathering
from ddp_play.planning.host_facts import facts_from_json

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine


def test_this_machine_is_told_in_the_controllers_terms(tmp_path: Path) -> None:
    found = fact_gathering.collect({"shared_dir": str(tmp_path), "python": sys.executable})
    assert (found["cpus"], found["kernel"]) == (len(os.sched_getaffinity(0)), platform.release())
    assert found["user"]["uid"] == os.geteuid()
    assert found["memory_mib"] > 0
    assert 0 < found["ephemeral_ports"][0] < found["ephemeral_ports"][1] < 65536
    assert (found["engine"], found["runs"]) == (None, [])
    assert found["rank_python"]["version"] == platform.python_version()
    read = facts_from_json("h1", found)
    assert (read.name, read.cpus, read.python) == ("h1", found["cpus"], sys.executable)


def test_the_engine_and_the_image(engine: Engine) -> None:
    engine.has("GET /version", {"Version": "26.1"})
    engine.has(
        "GET /images/train:1/json",
        {
            "Id": "sha256:1",
            "RepoDigests": None,
            "Config": {"Entrypoint": ["/run"], "Env": ["PATH=/bin", "PYTORCH_VERSION=2.9.0"]},
        },
    )
    found = fact_gathering._engine("train:1")
    assert (found["version"], found["problem"]) == ("26.1", "")
    image = {"id": "sha256:1", "digests": [], "entrypoint": ["/run"], "architecture": "", "torch": "2.9.0"}
    assert found["image"] == image
    assert fact_gathering._engine("train:2")["image"] is None
    assert fact_gathering._engine(None)["image"] is None


def test_an_engine_that_does_not_answer_is_a_problem(engine: Engine) -> None:
    engine.has("GET /version", {"message": "starting"}, 503)
    found = fact_gathering._engine("train:1")
    assert (found["version"], found["problem"], found["permission"]) == ("", "starting", False)


def test_the_shared_directory_is_tried_by_writing(tmp_path: Path) -> None:
    found = fact_gathering._shared(str(tmp_path))
    assert found is not None
    assert (found["exists"], found["writable"], found["problem"]) == (True, True, "")
    assert found["fstype"] in Path("/proc/filesystems").read_text().split()
    assert list(tmp_path.iterdir()) == []


def test_a_shared_directory_that_is_missing_or_closed(tmp_path: Path) -> None:
    gone = fact_gathering._shared(str(tmp_path / "gone"))
    assert gone == {"path": str(tmp_path / "gone"), "exists": False, "writable": False, "problem": "does not exist"}
    closed = fact_gathering._shared("/proc")  # closed to root as well
    assert closed is not None
    assert (closed["exists"], closed["writable"], closed["fstype"]) == (True, False, "proc")
    assert closed["permission"] is False
    refused = fact_gathering._shared("/sys")
    assert refused is not None
    assert refused["permission"] is True
    assert closed["problem"]
    assert fact_gathering._shared(None) is None


def test_what_the_python_of_the_ranks_answers_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    first = fact_gathering.collect({"python": sys.executable})
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    assert fact_gathering.collect({"python": sys.executable})["rank_python"] == first["rank_python"]
    assert (kept.name, kept.stat().st_mtime_ns) == ("facts.json", before)
