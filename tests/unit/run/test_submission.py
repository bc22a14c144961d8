"""Submission of runs: two that start at the same time never get the same directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.errors import UsageError
from ddp_play.run.submission import create_run, restart_problem, take_over_problem

FIRST = PlaybookRequest("/first.yml", ("/inv",), "/")
SECOND = PlaybookRequest("/second.yml", ("/inv",), "/")


def test_two_runs_that_start_at_once_do_not_share_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second would write its playbook and token into the run.json of the first."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    create = RunPaths.create

    def meanwhile(paths: RunPaths) -> None:
        monkeypatch.setattr(RunPaths, "create", create)
        with pytest.raises(UsageError, match="run night exists already"):
            create_run(SECOND, name="night", output=None, argv=[])
        create(paths)

    monkeypatch.setattr(RunPaths, "create", meanwhile)
    paths = create_run(FIRST, name="night", output=None, argv=[])
    assert read_json(paths.run)["request"]["playbook"] == "/first.yml"


@pytest.mark.parametrize("error", [KeyError("uid"), KeyboardInterrupt(), OSError("full")])
def test_a_start_that_fails_leaves_its_name_free(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))

    def failing() -> str:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr("ddp_play.run.submission.new_token", failing)
        with pytest.raises(type(error)):
            create_run(FIRST, name="night", output=None, argv=[])
    assert create_run(SECOND, name="night", output=tmp_path / "a" / "link", argv=[]).run.exists()
    (tmp_path / "file").touch()
    monkeypatch.setattr("ddp_play.run.submission._check_output", lambda _output: None)
    with pytest.raises(OSError, match="File exists"):
        create_run(SECOND, name="day", output=tmp_path / "file" / "link", argv=[])
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["night"]


def test_the_name_of_a_killed_start_can_be_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    RunPaths(tmp_path / "runs" / "night").create()
    with pytest.raises(UsageError, match="run night exists already") as caught:
        create_run(FIRST, name="night", output=None, argv=[])
    assert caught.value.hint == "ddp-play rm night removes what a killed start left; choose another --name"


@pytest.mark.parametrize(
    ("fleet", "restarts", "words"),
    [
        ({"secret_names": ["TOKEN"], "secret_env": ["HF_KEY"]}, 1, "the values of its secrets (HF_KEY, TOKEN)"),
        ({"secret_names": [f"S{n}" for n in range(9)]}, 1, "(S0, S1, S2, S3, S4 and more)"),
        ({"secret_names": ["TOKEN"]}, 0, ""),
        ({"secret_names": [], "secret_env": []}, 1, ""),
        ({}, 1, ""),
    ],
)
def test_a_take_over_knows_no_secrets(tmp_path: Path, fleet: dict[str, list[str]], restarts: int, words: str) -> None:
    paths = RunPaths(tmp_path / "night")
    paths.create()
    write_json(paths.fleet, fleet)
    write_json(paths.root / "job.json", {"restarts": restarts})
    problem = restart_problem(paths)
    assert words in problem
    assert bool(problem) == bool(words)


def test_only_a_failed_take_over_has_a_problem(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "night")
    paths.create()
    assert take_over_problem(paths) is None
    write_json(paths.background, {"pid": 1, "not_taken_over": {"message": "no channel to h1", "hint": "again"}})
    error = take_over_problem(paths)
    assert error is not None
    assert (error.message, error.hint, error.exit_code) == ("no channel to h1", "again", 69)
