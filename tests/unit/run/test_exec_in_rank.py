"""Command line of `ddp-play exec`, from the bundle of a run."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json, write_text
from ddp_play.bundle.run_lookup import Run
from ddp_play.engines.route import Route
from ddp_play.errors import Busy, UsageError
from ddp_play.planning.launch_placeholders import HOST_DIR
from ddp_play.run.exec_in_rank import exec_command
from tests.unit.build import apptainer, engine, hosts, plan

ENV = "# rank 1\nRANK=1\nDDP_PLAY_RESULT=/old/way/results/rank-1.json\n"


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run of two hosts with a rank each, whose working directory is below the run's directory on the host."""
    paths = RunPaths(tmp_path / "calm-otter-1")
    paths.create()
    made = plan(*hosts(2))
    below = tuple(dataclasses.replace(host, workdir=f"{HOST_DIR}/src") for host in made.hosts)
    write_json(paths.plan, dataclasses.replace(made, hosts=below).to_json())
    routes = [Route(name, ("ssh", "-p", "22", name), "channel").to_json() for name in ("h1", "h2")]
    write_json(paths.channels, {"routes": routes})
    write_text(paths.env(1), ENV)
    return paths


def run(paths: RunPaths, **fields: Any) -> Run:
    return Run(paths, {"status": "running", **fields}, attended=True)


@pytest.mark.parametrize(
    ("recorded", "workdir"),
    [
        ({"directories": {"h1": "/state/h1", "h2": "/state/h2"}}, "/state/h2/src"),
        ({}, "/old/way/src"),  # a run of an earlier version
    ],
)
def test_the_command_runs_in_the_ranks_environment_and_working_directory(
    paths: RunPaths, recorded: dict[str, Any], workdir: str
) -> None:
    words = exec_command(run(paths, **recorded), 1, ["py-spy", "dump"], terminal=True)
    env = "RANK=1 DDP_PLAY_RESULT=/old/way/results/rank-1.json"
    assert words == ["ssh", "-t", "-p", "22", "h2", f"cd {workdir} && exec env {env} py-spy dump"]


def test_a_rank_that_does_not_exist_is_refused(paths: RunPaths) -> None:
    with pytest.raises(UsageError, match="has ranks 0 to 1, not 2"):
        exec_command(run(paths), 2, ["true"], terminal=False)
    over = Run(paths, {"status": "succeeded"}, attended=False)
    with pytest.raises(UsageError, match="has ended: succeeded"):
        exec_command(over, 0, ["true"], terminal=False)


@pytest.mark.parametrize("status", ["starting", "waiting", "preparing"])
def test_ranks_that_have_not_started_are_waited_for_by_the_caller(paths: RunPaths, status: str) -> None:
    with pytest.raises(Busy, match=f"do not run yet: {status}"):
        exec_command(run(paths, status=status), 0, ["true"], terminal=False)


@pytest.mark.parametrize(("terminal", "ssh", "docker"), [(True, ["ssh", "-t"], "-it"), (False, ["ssh"], "-i")])
def test_the_command_has_a_terminal_only_if_its_caller_has_one(
    paths: RunPaths, terminal: bool, ssh: list[str], docker: str
) -> None:
    write_json(paths.plan, plan(*hosts(2, engine=engine()), image="rank:1").to_json())
    words = exec_command(run(paths), 1, ["sh"], terminal=terminal)
    assert words[: len(ssh)] == ssh
    assert "-t" in words or not terminal
    assert words[-1].startswith(f"docker exec {docker} ")


def test_a_command_enters_the_container_of_the_rank(paths: RunPaths) -> None:
    write_json(paths.plan, plan(*hosts(2), image="/x.sqsh", runtime="pyxis", workdir="/app").to_json())
    write_text(paths.env(1), "RANK=1\nLD_PRELOAD=/l.so\nNOTE=a b\n")
    text = exec_command(run(paths, directories={"h2": "/state/h2"}), 1, ["sh", "-c", "a b"], terminal=False)[-1]
    assert text == (
        'exec env -i DDP_PLAY_INSIDE_TERM="$TERM" DDP_PLAY_INSIDE_RANK=1 DDP_PLAY_INSIDE_LD_PRELOAD=/l.so '
        "'DDP_PLAY_INSIDE_NOTE=a b' "
        "/bin/sh /state/h2/enter-container /app sh -c 'a b'"
    )


def test_a_rank_in_an_image_has_company_in_the_same_image(paths: RunPaths) -> None:
    made = plan(*hosts(2, apptainer=apptainer()), image="/x.sif", secret_names=("TOKEN",))
    write_json(paths.plan, made.to_json())
    write_text(paths.env(1), "RANK=1\nHOME=/state/h2/rank-1\nTOKEN_FILE=/run/ours/TOKEN\n")
    given = run(paths, directories={"h2": "/state/h2"})
    text = exec_command(given, 1, ["sh", "-c", "a b"], terminal=False)[-1]
    assert text.startswith("cd / && exec env PATH=/usr/bin:")
    assert " APPTAINER_TMPDIR=/state/h2/rank-1 APPTAINERENV_RANK=1 " in text
    assert " APPTAINERENV_TOKEN_FILE=/run/ours/TOKEN /usr/bin/apptainer " in text
    assert "--home /state/h2/rank-1 " in text
    assert "source=/run/ours,destination=/run/ours,ro" in text
    assert text.endswith("--pwd / /x.sif sh -c 'a b'")
