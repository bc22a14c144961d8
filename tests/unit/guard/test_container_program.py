"""A program in a container as that of a rank: what it printed, its limit, and that nothing of it stays.

The engine is a stand-in; `tests/lab/test_job_image.py` has the same with a real one.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from ddp_play.guard import container_program
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine

NAME = "ddp-check-a1-r0"
PRINTS = '{"part": "start", "uid": 7}\\nnoise\\n{"part": "limits"}\\n'


@pytest.fixture
def made(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> HostRun:
    """A place, and an engine whose container prints into the log of its rank when it is created."""
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    place = HostRun.at("check.0123456789abcdef", 1, "h1")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "docker").write_text(f"#!/bin/sh\nprintf '{PRINTS}' >> {place.log(0)}\necho \"$@\" >&2\necho c0ffee\n")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    engine.has("GET /images/train:1/json", {"Id": "sha256:1"})
    engine.has("GET /_ping", b"OK")
    engine.has("GET /containers/json", [])
    engine.has(f"POST /containers/{NAME}/start", b"", 204)
    engine.has(f"DELETE /containers/{NAME}", b"", 204)
    engine.container(NAME, Running=False, ExitCode=0)
    return place


def spec(**more: Any) -> dict[str, Any]:
    rank = {"rank": 0, "create": ["create", "train:1", "sh"], "env": {}, "container": NAME}
    return {"protocol": 1, "image": "train:1", "user": None, "attempt": 1, "head": True, "ranks": [rank], "agent": None,
            "secrets": {}, "make_dirs": [], "run_paths": [], "owned_paths": [], **more}  # fmt: skip


def left(place: HostRun) -> list[Path]:
    """What is left of the place, and of its run."""
    return [path for path in (place.root, place.root.parent, place.secrets) if path.exists()]


def test_what_it_printed_and_nothing_stays(made: HostRun, engine: Engine) -> None:
    found = container_program.run(made, spec(secrets={"TOKEN": ""}), (10.0, 10.0))
    value = found["program"]["value"]
    assert value["parts"] == [{"part": "start", "uid": 7}, {"part": "limits"}]
    assert "problem" not in value
    assert value["before"].keys() == value["after"].keys()
    assert found["left"]["value"] == []
    assert left(made) == []
    assert engine.asked[-1].startswith(f"DELETE /containers/{NAME}")


def test_one_that_does_not_end_costs_its_limit_and_is_removed(made: HostRun, engine: Engine) -> None:
    engine.container(NAME, Running=True)
    began = time.monotonic()
    found = container_program.run(made, spec(), (0.6, 10.0))
    assert found["program"]["value"]["problem"] == "no end within 0.6 s"
    assert found["program"]["value"]["parts"][0]["part"] == "start", "what came before counts"
    assert 0.6 <= time.monotonic() - began < 8
    assert left(made) == []
    assert any(request.startswith(f"DELETE /containers/{NAME}") for request in engine.asked)


def test_one_that_fails_has_its_code_and_last_line(made: HostRun, engine: Engine) -> None:
    engine.container(NAME, Running=False, ExitCode=3)
    value = container_program.run(made, spec(), (5.0, 10.0))["program"]["value"]
    assert value["problem"] == 'exit code 3: {"part": "limits"}'


def test_an_image_that_is_missing_and_what_is_refused(made: HostRun, engine: Engine, tmp_path: Path) -> None:
    value = container_program.run(made, spec(image="none:1"), (5.0, 10.0))["program"]["value"]
    assert (value["missing"], value["problem"]) == (True, "image none:1 is not on this host")
    (tmp_path / "bin" / "docker").write_text(
        "#!/bin/sh\necho 'invalid mount config: bind source path does not exist: /data' >&2\nexit 1\n"
    )
    value = container_program.run(made, spec(), (5.0, 10.0))["program"]["value"]
    assert value["refused"] is True
    assert value["hint"] == "make /data on HOSTS, or correct ddp_job_mounts"
    file = tmp_path / "file"
    file.touch()
    dirs = [{"path": str(file / "src"), "mode": 0o700}]
    value = container_program.run(made, spec(make_dirs=dirs), (5.0, 10.0))["program"]["value"]
    assert value["refused"] is True
    assert value["problem"].startswith("cannot prepare: ")
    assert left(made) == []


def test_a_directory_that_cannot_be_made_is_the_answer(made: HostRun, engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    found = container_program.run(made, spec(), (5.0, 10.0))
    value = found["program"]["value"]
    assert value["refused"] is True
    assert value["problem"].startswith("cannot prepare: ")
    assert str(tmp_path / "runs") in value["problem"]
    assert not any(request.startswith("POST") for request in engine.asked)


def test_a_container_that_does_not_start_is_refused(made: HostRun, engine: Engine) -> None:
    engine.has(f"POST /containers/{NAME}/start", {"message": "exec: sh: executable file not found"}, 400)
    value = container_program.run(made, spec(), (5.0, 10.0))["program"]["value"]
    assert (value["refused"], "executable file not found" in value["problem"]) == (True, True)


def test_an_engine_that_hangs_costs_the_limits_and_what_is_left_is_said(
    made: HostRun, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.guard.leftover_containers.PING_S", 0.5)
    engine.slow = ("POST", "DELETE", "GET /_ping")
    found = container_program.run(made, spec(), (0.5, 1.0))
    assert found["program"]["problem"] == "no answer within 1.5 s"
    assert found["left"]["value"][0].startswith(f"container {NAME}: the engine did not answer")
    assert made.spec.exists(), "gc knows the container by it"


def test_a_container_that_the_engine_makes_after_its_order_was_cut_off_is_removed(
    made: HostRun, engine: Engine, tmp_path: Path
) -> None:
    """The client of the engine is killed at the limit, and the engine goes on with what that has asked for."""
    (tmp_path / "bin" / "docker").write_text("#!/bin/sh\nexec sleep 60\n")
    engine.has("GET /containers/json", [])
    engine.has(f"DELETE /containers/{NAME}", {"message": "No such container"}, 404)
    engine.has("DELETE /containers/1ate", b"", 204)
    late = threading.Timer(2.5, engine.has, ("GET /containers/json", [{"Id": "1ate"}]))
    late.start()
    found = container_program.run(made, spec(), (0.5, 0.5))
    late.join()
    assert found["program"]["problem"] == "no answer within 1 s"
    assert found["left"]["value"] == []
    assert engine.asked[-1].startswith("DELETE /containers/1ate")
    (wanted,) = {unquote(request) for request in engine.asked if request.startswith("GET /containers/json")}
    assert wanted.endswith('{"label": ["ddp-play.key=check.0123456789abcdef"]}'), "no other run's"


def test_a_controller_that_is_gone_ends_it_at_once(made: HostRun, engine: Engine) -> None:
    engine.container(NAME, Running=True)
    began = time.monotonic()
    container_program.run(made, spec(), (60.0, 60.0), lambda: made.log(0).exists())
    assert time.monotonic() - began < 20
    assert left(made) == []
    assert any(request.startswith(f"DELETE /containers/{NAME}") for request in engine.asked)
