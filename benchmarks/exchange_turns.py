"""A training step in rank containers compared with bare processes: both trainings run, and take turns.

What a machine gives to its processes drifts by more within half a minute than the difference that is looked for. So
both trainings are started once, and all processes of one are stopped (SIGSTOP) while the other has the machine for two
seconds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from contenders import PROGRAM
from exchange_ways import PORT, ROOT, WORK, BenchLab, ddp_play, run_bare, training, variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURN_S = 2.0
# The first part of a turn is not counted: ranks that were stopped go on one after the other, with cold caches.
SETTLE_S = 0.4
START_LIMIT_S = 180.0
NUM_WARM_UP_LINES = 40
NAME = "turns"
# Never reached; different, so that the processes of the two trainings can be told apart by their command lines.
OUR_STEPS, BARE_STEPS = 900_001, 900_002


@dataclass(frozen=True)
class Training:
    """One of the two trainings: all its processes on this machine, and the text of rank 0's metrics."""

    pids: tuple[int, ...]
    metrics: Callable[[], str]

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to every process that still exists."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def turns(lab: BenchLab, batch_size: int, seconds: float) -> list[tuple[float, float]]:
    """Mean seconds per step (containers, bare) of neighbouring turns, in the order A B B A, for this long.

    RuntimeError if a training does not start, or made no step in one of its turns.
    """
    with _both(lab, batch_size) as (ours, bare):
        return _alternate(ours, bare, seconds)


def _alternate(one: Training, other: Training, seconds: float) -> list[tuple[float, float]]:
    found = []
    until = time.monotonic() + seconds
    for number in itertools.count():
        if number % 2 == 0 and time.monotonic() >= until:
            break
        order = (one, other) if number % 2 == 0 else (other, one)
        found.append({each: _turn(each, order) for each in order})
    at = {each: step_times(each.metrics()) for each in (one, other)}
    return [(_step_s(at[one], *turn[one]), _step_s(at[other], *turn[other])) for turn in found]


def _turn(one: Training, both: tuple[Training, ...]) -> tuple[float, float]:
    """Let this training alone have the machine; begin and end of the time that counts."""
    for other in both:
        if other is not one:
            other.signal(signal.SIGSTOP)
    one.signal(signal.SIGCONT)
    time.sleep(SETTLE_S)
    begin = time.time()
    time.sleep(TURN_S - SETTLE_S)
    return begin, time.time()


@contextlib.contextmanager
def our_training(lab: BenchLab, batch_size: int) -> Iterator[tuple[Training, Path]]:
    """The training in containers, started and warm, and the output of its run; ends it."""
    log = lab.home / "turns.log"
    kept = lab.home / "runs" / NAME / "metrics" / "rank-0.jsonl"
    with log.open("wb") as output:
        run = subprocess.Popen(
            _our_argv(lab, batch_size), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=lab.environment
        )
    ours = Training((), lambda: kept.read_text() if kept.exists() else "")
    try:
        _wait_until_warm(ours, log)
        yield replace(ours, pids=(*_pids(OUR_STEPS), *_guards(), *_tree(run.pid))), log
    finally:
        Training((*_pids(OUR_STEPS), *_guards(), *_tree(run.pid)), str).signal(signal.SIGCONT)
        with contextlib.suppress(RuntimeError):  # a run that did not start
            ddp_play(lab, "stop", NAME)
        run.wait(START_LIMIT_S)


@contextlib.contextmanager
def _both(lab: BenchLab, batch_size: int) -> Iterator[tuple[Training, Training]]:
    """Both trainings, started and warm; ends them."""
    words = (*training(BARE_STEPS, batch_size), "--metrics", f"{WORK}/metrics.jsonl")
    with ThreadPoolExecutor(1) as pool, our_training(lab, batch_size) as (ours, log):
        pool.submit(run_bare, lab, words, port=PORT)
        bare = Training((), lambda: _bare_metrics(lab))
        try:
            _wait_until_warm(bare, log)
            yield ours, replace(bare, pids=_pids(BARE_STEPS))
        finally:
            for number in (signal.SIGCONT, signal.SIGKILL):
                Training(_pids(BARE_STEPS), str).signal(number)


def _bare_metrics(lab: BenchLab) -> str:
    return lab.hosts[0].run(f"cat {WORK}/metrics.jsonl").stdout.decode()


def _our_argv(lab: BenchLab, batch_size: int) -> list[str]:
    """`ddp-play run` of the training, from a playbook that this writes."""
    command = ["python", "-m", "trainer", *training(OUR_STEPS, batch_size)]
    job = {"ddp_job_source": str(ROOT), "ddp_job_source_include": ["trainer"], "ddp_job_command": command}
    play = {"hosts": "ranks", "gather_facts": False, "roles": [{"role": "ddp.play.ddp_job", "vars": job}]}
    playbook = lab.home / "turns.yml"
    playbook.write_text(json.dumps([play]))
    return [PROGRAM, "run", str(playbook), "-i", lab.inventory, "--name", NAME, *variables(lab)]


def _wait_until_warm(one: Training, log: Path) -> None:
    """Wait until rank 0 wrote its first lines; RuntimeError with the run's output if it does not."""
    until = time.monotonic() + START_LIMIT_S
    while len(step_times(one.metrics())) < NUM_WARM_UP_LINES:
        if time.monotonic() > until:
            raise RuntimeError(f"a training wrote no metrics within {START_LIMIT_S:g} s:\n{log.read_text()}")
        time.sleep(1)


def step_times(metrics: str) -> list[float]:
    """Time stamps of rank 0's complete metric lines of single steps, seconds since 1970."""
    rows = (json.loads(line) for line in metrics.splitlines(keepends=True) if line.endswith("\n"))
    return [row["time"] for row in rows if "samples_per_s" in row and row["rank"] == 0]


def _step_s(times: list[float], begin: float, end: float) -> float:
    """Mean seconds between the steps of one turn; RuntimeError if it has fewer than two."""
    inside = [at for at in times if begin <= at <= end]
    if len(inside) < 2:
        raise RuntimeError(f"{len(inside)} steps in a turn of {TURN_S:g} s")
    return (inside[-1] - inside[0]) / (len(inside) - 1)


def _processes() -> Iterator[tuple[int, list[bytes], int]]:
    """PID, words of the command line, and parent of every process; lab hosts are containers, so theirs too."""
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with contextlib.suppress(OSError):
                parent = int((place / "stat").read_bytes().rpartition(b")")[2].split()[1])
                yield int(place.name), (place / "cmdline").read_bytes().rstrip(b"\0").split(b"\0"), parent


def _pids(num_steps: int) -> tuple[int, ...]:
    """Processes of the ranks, and of the shells above them, that train for this many steps."""
    mark = str(num_steps).encode()
    return tuple(pid for pid, words, _ in _processes() if any(mark in word for word in words))


def _guards() -> tuple[int, ...]:
    return (*_of_program(b"guard"), *_of_program(b"samples"))


def _of_program(verb: bytes) -> tuple[int, ...]:
    """Processes of the program on hosts with this verb, which has one argument."""
    return tuple(pid for pid, words, _ in _processes() if len(words) > 2 and words[-2] == verb)


def _tree(root: int) -> tuple[int, ...]:
    """A process and all its descendants: the controller of the run, and its ssh clients."""
    parents = {pid: parent for pid, _, parent in _processes()}
    tree = {root} & set(parents)
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tuple(tree)
