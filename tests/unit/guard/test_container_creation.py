"""Rank containers are created by docker with the very words of the plan."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import container_creation
from ddp_play.guard.docker_socket import EngineError
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "runs" / "night" / "1.h1")


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `docker` that writes its arguments and the variable V into a file; fails when V is `fail`."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    program = bin_dir / "docker"
    said = tmp_path / "said"
    program.write_text(
        f'#!/bin/sh\nprintf "%s|" "$@" "$V" >> {said}\n'
        '[ "$V" != fail ] || { echo "Error: no such image" >&2; exit 1; }\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_dir}:{os.environ['PATH']}")
    return said


def rank(**env: str) -> dict[str, Any]:
    return {"ranks": [{"rank": 0, "create": ["create", "--env", "V", "image"], "env": env}]}


def test_values_travel_in_dockers_environment(docker: Path) -> None:
    container_creation.create(rank(V="two\nlines"))
    assert docker.read_text() == "create|--env|V|image|two\nlines|"


def test_the_guard_is_told_the_id_of_each_container(docker: Path) -> None:
    """It finds the container's process by it while the engine hangs."""
    spec = rank(V="x")
    (docker.parent / "bin" / "docker").write_text("#!/bin/sh\necho 0123abcd\n")
    container_creation.create(spec)
    assert spec["ranks"][0]["container_id"] == "0123abcd"


@pytest.mark.parametrize(
    ("options", "euid", "lease_s", "refused"),
    [
        (["name=userns"], 1000, 60.0, True),
        (["name=userns"], 0, 60.0, False),
        (["name=userns"], 1000, 0.0, False),
        (["name=rootless", "name=cgroupns"], 1000, 60.0, False),
    ],
)
def test_a_lease_that_only_the_engine_could_enforce_is_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, options: list[str], euid: int, lease_s: float, refused: bool
) -> None:
    engine.has("GET /info", {"SecurityOptions": options})
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    spec = {"limits": {"lease_s": lease_s}}
    if not refused:
        container_creation.check_users(spec)
        return
    with pytest.raises(Refused, match="userns-remap") as caught:
        container_creation.check_users(spec)
    assert "become" in caught.value.hint


def test_a_path_for_the_container_does_not_hide_docker(docker: Path) -> None:
    container_creation.create(rank(V="x", PATH="/opt/conda/bin"))
    assert docker.exists()


def test_the_engines_words_are_kept(docker: Path) -> None:
    with pytest.raises(Refused, match="cannot create the container of rank 0: Error: no such image"):
        container_creation.create(rank(V="fail"))


def test_no_docker_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Refused, match="no docker command on this host"):
        container_creation.create(rank(V="x"))


def wanted(**more: Any) -> dict[str, Any]:
    return {"image": "train:1", "pull": "missing", "pull_timeout_s": 10.0, **more}


def test_an_image_that_is_here_is_not_pulled(engine: Engine, docker: Path, place: HostRun) -> None:
    engine.has("GET /images/train:1/json", {"Id": "sha256:1"})
    container_creation.provide_image(place, wanted(), {})
    assert not docker.exists()


def test_an_image_that_is_missing_is_pulled_by_the_policy(engine: Engine, docker: Path, place: HostRun) -> None:
    with pytest.raises(Refused, match="image train:1 is not on this host"):
        container_creation.provide_image(place, wanted(pull="never"), {})
    assert not docker.exists()
    with pytest.raises(Refused, match="image train:1 is not on this host"):
        container_creation.provide_image(place, wanted(), {})  # this docker pulls nothing
    assert docker.read_text() == "pull|--quiet|train:1||"


@pytest.mark.parametrize(
    ("withdrawn", "words"), [(True, "was withdrawn"), (False, "docker pull did not end within 1 s")]
)
def test_a_pull_ends_when_it_is_withdrawn_and_at_its_limit(
    engine: Engine, docker: Path, place: HostRun, withdrawn: bool, words: str
) -> None:
    """The run waited for a pull of minutes after another host had refused, and could not clean up here."""
    pid = docker.parent / "pid"
    (docker.parent / "bin" / "docker").write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 100\n")

    def is_withdrawn() -> bool:
        return withdrawn and pid.exists() and bool(pid.read_text())

    limit_s = 60.0 if withdrawn else 1.0
    with pytest.raises(Refused, match=words):
        container_creation.provide_image(place, wanted(pull_timeout_s=limit_s), {}, is_withdrawn)
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_an_engine_that_falls_silent_is_a_refusal(
    engine: Engine, docker: Path, place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the pull, and between the pull and the look at its result."""
    answers = iter([None])

    def image(_: str) -> None:
        for answer in answers:
            return answer
        raise EngineError("no Docker engine answers")

    monkeypatch.setattr("ddp_play.guard.docker_socket.image", image)
    with pytest.raises(Refused, match="no Docker engine answers"):
        container_creation.provide_image(place, wanted(), {})
    assert docker.read_text() == "pull|--quiet|train:1||"
    with pytest.raises(Refused, match="no Docker engine answers"):
        container_creation.provide_image(place, wanted(), {})
