"""Verbs on hosts that an engine gives, seen from where they were typed: output, exit code, and jobs that never run."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.verb_paths import VerbPaths
from ddp_play.cli import console, engine_job, engine_verb
from ddp_play.cli.engine_verb import Watched, without_engine
from ddp_play.cli.main import app
from ddp_play.engines.interface import AllocationState, Ending, Phase
from ddp_play.errors import Interrupted, UsageError
from ddp_play.run.allocated_verb import MODULE
from ddp_play.testing import FakeEngine
from tests.unit.build import job
from tests.unit.cli.own_process import unread_pipe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.ansible.runner import PlaybookRequest
    from ddp_play.engines.interface import Allocation, Wanted
    from ddp_play.planning.job import Job


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(engine_verb, "TICK_S", 0.01)
    monkeypatch.setattr(engine_verb, "ASK_S", 0.0)
    monkeypatch.setattr(engine_verb, "LATE_S", 1.0)
    paths = VerbPaths(tmp_path / "check-1")
    paths.root.mkdir()
    return Watched(FakeEngine(), paths, job())


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["check", "--on", "slurm", "--json"], ["check", "--json"]),
        (["check", "--on=slurm", "--slurm", "partition=gpu", "--slurm=time=5"], ["check"]),
        (["bench", "--op", "all"], ["bench", "--op", "all"]),
    ],
)
def test_the_command_inside_has_no_engine(argv: list[str], wanted: list[str]) -> None:
    assert without_engine(argv) == wanted


def test_the_output_and_the_exit_code_are_those_of_the_verb(watched: Watched, capsys: Any) -> None:
    def ends() -> None:
        watched.paths.out.write_text("n1 is fine\n")
        write_json(watched.paths.end, {"code": 1})

    threading.Timer(0.1, ends).start()
    assert watched.run() == 1
    assert capsys.readouterr().out == "n1 is fine\n"
    engine = watched.engine
    assert isinstance(engine, FakeEngine)
    assert engine.wanted[0].controller == MODULE
    assert not watched.paths.root.exists()


def test_a_code_that_comes_after_the_end_of_the_job_counts(watched: Watched, capsys: Any) -> None:
    """A file server shows it late."""
    assert isinstance(watched.engine, FakeEngine)
    watched.engine.now = AllocationState(Phase.ENDED, ending=Ending("internal", 70, "ended"))

    def ends() -> None:
        with watched.paths.out.open("ab") as out:
            out.write(b"n1 is slow\n")
        write_json(watched.paths.end, {"code": 1})

    threading.Timer(0.3, ends).start()
    assert watched.run() == 1
    assert capsys.readouterr().out == "n1 is slow\n"


def test_the_files_of_the_verb_are_there_before_its_job_is(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []

    def allocate(_wanted: object) -> None:
        found.extend(sorted(path.name for path in watched.paths.root.iterdir()))
        raise UsageError("refused")

    monkeypatch.setattr(watched.engine, "allocate", allocate)
    with pytest.raises(UsageError):
        watched.run()
    paths = watched.paths
    assert found == sorted(path.name for path in (paths.out, paths.err, paths.end, paths.lock))


def test_a_character_may_come_in_two_pieces(watched: Watched, capsysbinary: Any) -> None:
    text = "größer\n".encode()
    for piece in (text[:3], text[3:]):
        for path in (watched.paths.out, watched.paths.err):
            with path.open("ab") as file:
                file.write(piece)
        watched._copy_output()
    assert capsysbinary.readouterr() == (text, text)


def test_output_that_takes_nothing_ends_no_verb(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code of the verb counts, as without an engine."""
    dropped: list[int] = []
    monkeypatch.setattr(console, "drop", dropped.append)
    monkeypatch.setattr(sys, "stderr", None)  # closed, by who has started the command
    for path in (watched.paths.out, watched.paths.err):
        path.write_bytes(b"a line\n")
    with unread_pipe() as pipe, os.fdopen(os.dup(pipe), "w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        watched._copy_output()
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
    assert dropped == [console.STDOUT]


def test_a_job_that_ends_without_the_verb_says_why(watched: Watched, capsys: Any) -> None:
    assert isinstance(watched.engine, FakeEngine)
    watched.engine.now = AllocationState(Phase.ENDED, ending=Ending("max_duration", 124, "reached its time limit"))
    assert watched.run() == 124
    assert "fake job 1 reached its time limit" in capsys.readouterr().err


@pytest.fixture
def allocates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[FakeEngine, list[str]]]:
    """The engine that commands get, and the playbooks that a job was read from."""
    engine, playbooks = FakeEngine(refuses=UsageError("no such nodes")), list[str]()

    def read(request: PlaybookRequest, *_others: object) -> Job:
        playbooks.append(request.playbook)
        return job()

    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(engine_job, "read_job", read)
    monkeypatch.setattr(engine_verb, "engine_named", lambda _name: engine)
    signals = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in signals}
    yield engine, playbooks
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("verb", "playbook"), [("check", "bench.yml"), ("collectives", "collectives.yml")])
def test_a_job_has_the_name_of_its_verb(allocates: tuple[FakeEngine, list[str]], verb: str, playbook: str) -> None:
    engine, playbooks = allocates
    assert CliRunner().invoke(app, [verb, "--on", "slurm"]).exit_code == 64
    assert engine.wanted[0].run_id.startswith(f"{verb}-")
    assert [Path(path).name for path in playbooks] == [playbook]


@pytest.mark.usefixtures("allocates")
def test_the_state_directory_that_it_makes_is_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        CliRunner().invoke(app, ["check", "--on", "slurm"])
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / place).stat().st_mode) for place in ("home", "home/allocations")] == [0o700, 0o700]


@pytest.mark.parametrize(("handler", "code"), [(signal.SIG_DFL, 130), (signal.SIG_IGN, 64)])
def test_a_lost_terminal_gives_the_nodes_back(
    allocates: tuple[FakeEngine, list[str]], monkeypatch: pytest.MonkeyPatch, handler: signal.Handlers, code: int
) -> None:
    """Unless it is ignored, as nohup does."""
    signal.signal(signal.SIGHUP, handler)
    engine, _ = allocates
    refuse = engine.allocate

    def allocate(wanted: Wanted) -> Allocation:
        signal.raise_signal(signal.SIGHUP)
        return refuse(wanted)

    monkeypatch.setattr(engine, "allocate", allocate)
    assert CliRunner().invoke(app, ["check", "--on", "slurm"]).exit_code == code


class Cancelled(FakeEngine):
    """Its job hears a Ctrl-C while it is asked for. Once cancelled it says something and ends, a question later."""

    root: Path
    again = False

    def state(self, allocation: Allocation) -> AllocationState:
        if not self.cancelled:
            raise KeyboardInterrupt
        if self.again:
            raise KeyboardInterrupt
        if self.now.phase is Phase.GRANTED:
            self.now = AllocationState(Phase.ENDED, ending=Ending("stopped", 130, "was cancelled", stopped=True))
            return AllocationState(Phase.GRANTED)
        (self.root / "stdout").write_text("n1: found by then\n")
        return self.now


@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_waits_for_the_end_of_the_job_and_another_one_does_not(
    watched: Watched, capsys: Any, again: bool
) -> None:
    engine = Cancelled(now=AllocationState(Phase.GRANTED))
    engine.root, engine.again = watched.paths.root, again
    watched.engine = engine
    with pytest.raises(Interrupted, match="fake job 1 was cancelled"):
        watched.run()
    assert engine.cancelled == ["1"]
    assert capsys.readouterr().out == ("" if again else "n1: found by then\n")
    assert not watched.paths.root.exists()


def test_a_job_that_can_never_start_is_cancelled(watched: Watched) -> None:
    assert isinstance(watched.engine, FakeEngine)
    watched.engine.now = AllocationState(Phase.PENDING, "PartitionTimeLimit", never="its limit is too long")
    with pytest.raises(UsageError, match="can never start: its limit is too long"):
        watched.run()
    assert watched.engine.cancelled == ["1"]
