"""Verbs on hosts that an engine gives: the verb runs in an allocation, whose output and exit code are the verb's."""

from __future__ import annotations

import contextlib
import functools
import inspect
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.paths import home, make_directory, read_json, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.bundle.verb_paths import VERBS, VerbPaths
from ddp_play.cli import console
from ddp_play.cli.engine_job import job_of
from ddp_play.cli.engine_start import EngineOptions, with_engine
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.run import stop_on_term
from ddp_play.engines.interface import Ending, Phase, Wanted
from ddp_play.engines.registry import engine_named
from ddp_play.errors import HostNotReady, Interrupted, UsageError
from ddp_play.run.allocated_verb import MODULE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ddp_play.cli.options import Ansible
    from ddp_play.engines.interface import Allocation, AllocationState, Engine
    from ddp_play.planning.job import Job

ENGINE_FLAGS = ("--on", "--slurm")
TICK_S, ASK_S = 0.2, 2.0
# A file server may show a job's last files later than Slurm says that it has ended.
LATE_S = 5.0


def on_engine(verb: str, *, playbook: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator of a verb: with `--on ENGINE` it runs on hosts that this engine gives.

    `playbook`: that of ddp-play with the job's variables, where the verb has none of the user; by default of its name.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(*, engine: EngineOptions, **given: Any) -> None:
            with error_boundary():
                engine.check(given["ansible"], dry=False, wait=False)
                if engine.allocates:
                    own = str(collection_root() / "playbooks" / f"{playbook or verb}.yml")
                    path = given.get("playbook") or own
                    code = run_there(engine, given["ansible"], given["inventory"], verb=verb, playbook=path)
                    raise typer.Exit(code)
            function(**given)

        signature = inspect.signature(function)
        more = inspect.Parameter("engine", inspect.Parameter.KEYWORD_ONLY, annotation=EngineOptions)
        parameters = [*signature.parameters.values(), more]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer reads it
        return with_engine(command)

    return decorate


def run_there(
    options: EngineOptions, ansible: Ansible, inventory: list[str] | None, *, verb: str, playbook: str
) -> int:
    """Run this very command on hosts of the engine; returns its exit code.

    `playbook`: that with the job's variables, such as the number of hosts. UsageError or HostNotReady if the engine
    could never give the hosts, or has given none.
    """
    stop_on_term()
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, signal.getsignal(signal.SIGTERM))
    job = job_of(ansible.request(playbook, inventory, allocated=True), options.slurm)
    job = job.model_copy(update={"restarts": 0})
    places = home() / VERBS
    make_directory(places)
    paths = VerbPaths(places / f"{verb}-{new_run_id(places)}")
    paths.root.mkdir(mode=0o700)
    write_json(paths.order, {"argv": without_engine(sys.argv[1:]), "cwd": str(Path.cwd())})
    return Watched(engine_named(options.on), paths, job).run()


def without_engine(argv: Sequence[str]) -> list[str]:
    """The command line without the options that choose the engine."""
    found: list[str] = []
    words = iter(argv)
    for word in words:
        if word in ENGINE_FLAGS:
            next(words, None)
        elif word.partition("=")[0] not in ENGINE_FLAGS:
            found.append(word)
    return found


@dataclass
class Watched:
    """A verb in an allocation, seen from where it was typed."""

    engine: Engine
    paths: VerbPaths
    job: Job
    _read: dict[Path, int] = field(default_factory=dict)
    _said: str = ""

    def run(self) -> int:
        """Submit it, copy its output, and return its exit code. Ctrl-C gives the hosts back, and waits for its end."""
        try:
            with self.paths.attended():
                return self._run()
        finally:  # with the lock closed: a file server keeps a file that is open
            shutil.rmtree(self.paths.root, ignore_errors=True)

    def _run(self) -> int:
        self._make_files()
        allocation = self.engine.allocate(Wanted(self.paths.root.name, self.paths.root, self.job, MODULE))
        console.note(f"{self.engine.name} job {allocation.id}")
        try:
            state = self._follow(allocation)
        except KeyboardInterrupt:
            self._cancel(allocation)
            raise Interrupted(f"{self.engine.name} job {allocation.id} was cancelled") from None
        return self._code(allocation, state)

    def _make_files(self) -> None:
        """A client of a file server remembers for some time that a file is not there, so all are from here on."""
        self.paths.out.touch()
        self.paths.err.touch()
        write_json(self.paths.end, {})

    def _follow(self, allocation: Allocation) -> AllocationState:
        asked = 0.0
        while True:
            self._copy_output()
            if time.monotonic() - asked > ASK_S or self._has_code():
                asked = time.monotonic()
                state = self.engine.state(allocation)
                if state.phase is Phase.ENDED or self._has_code():
                    self._await_code()
                    self._copy_output()
                    return state
                self._say(allocation, state)
            time.sleep(TICK_S)

    def _cancel(self, allocation: Allocation) -> None:
        """Give the hosts back, and copy what the verb says until its job has ended. Another Ctrl-C leaves at once."""
        self.engine.cancel(allocation)
        with contextlib.suppress(KeyboardInterrupt):
            console.note(f"waiting for the end of {self.engine.name} job {allocation.id}; Ctrl-C leaves at once")
            while not self._has_code() and self.engine.state(allocation).phase in (Phase.PENDING, Phase.GRANTED):
                self._copy_output()
                time.sleep(ASK_S)
        self._copy_output()

    def _has_code(self) -> bool:
        return "code" in read_json(self.paths.end)

    def _await_code(self) -> None:
        until = time.monotonic() + LATE_S
        while not self._has_code() and time.monotonic() < until:
            time.sleep(TICK_S)

    def _say(self, allocation: Allocation, state: AllocationState) -> None:
        """What is new about a job that waits. UsageError if it waits in vain."""
        if state.never:
            self.engine.cancel(allocation)
            raise UsageError(f"{self.engine.name} job {allocation.id} can never start: {state.never}", hint=state.text)
        if state.text and state.text != self._said:
            console.note(f"job {allocation.id}: {state.text}")
        self._said = state.text

    def _copy_output(self) -> None:
        for path, descriptor in ((self.paths.out, console.STDOUT), (self.paths.err, console.STDERR)):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            self._read[path] = self._read.get(path, 0) + len(data)
            console.relay(data, descriptor)  # in bytes: a piece may end within a character

    def _code(self, allocation: Allocation, state: AllocationState) -> int:
        """Exit code of the verb; that of an allocation that has ended without one, with the reason."""
        if "code" in (end := read_json(self.paths.end)):
            return int(end["code"])
        output = self.paths.output
        said = output.read_text(errors="replace").strip()[-500:] if output.exists() else ""
        found = state.ending or Ending(HostNotReady.kind, HostNotReady.exit_code, "ended, and nothing says how")
        message, hint = f"{self.engine.name} job {allocation.id} {found.words}", found.hint or said
        console.error(message, hint=hint)
        document = {"exit_class": found.kind, "exit_code": found.exit_code, "message": message, "hint": hint}
        console.json_error({**document, "hosts": []})
        return found.exit_code
