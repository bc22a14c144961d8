"""Start and end of the sampler by the guard; a stand-in for the program ends soon, late or not at all."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import processes, sampling
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.sampling import Sampling
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

OBEYS = "import sys, os; open(sys.argv[2] + '/begun', 'w').close(); sys.stdin.read(); os.mkdir(sys.argv[2] + '/ended')"
HANGS = "import sys, time; open(sys.argv[2] + '/begun', 'w').close(); time.sleep(600)"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """File of the program, which starts at once."""
    path = tmp_path / "guard.py"
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.setattr(sampling, "AFTER_S", 0.0)
    yield path
    assert samplers(path) == []


def started(program: Path, text: str, **limits: float) -> Sampling:
    program.write_text(text)
    found = Sampling(HostRun(program.parent), limits)
    found.keep()
    return found


def samplers(program: Path) -> list[int]:
    """Children of this process that execute the program; other tests may have left children of their own."""
    words = {pid: Path(f"/proc/{pid}/cmdline") for pid in processes.children(os.getpid())}
    return [pid for pid, line in words.items() if line.exists() and str(program).encode() in line.read_bytes()]


def begun(program: Path) -> bool:
    return (program.parent / "begun").exists()


def test_its_last_sample_is_waited_for(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "END_S", 60.0)
    made = started(program, OBEYS, samples_s=2.0)
    wait_until(lambda: begun(program), timeout_s=60, what="the sampler")
    made.keep()
    assert len(samplers(program)) == 1
    made.end()
    assert (program.parent / "ended").is_dir()
    made.end()
    made.keep()


def test_one_that_hangs_is_ended(program: Path) -> None:
    made = started(program, HANGS, samples_s=2.0)
    wait_until(lambda: begun(program), timeout_s=60, what="the sampler")
    before = time.monotonic()
    made.end()
    assert time.monotonic() - before < 30
    wait_until(lambda: samplers(program) == [], timeout_s=30, what="its end")


@pytest.mark.parametrize("limits", [{}, {"samples_s": 0.0}])
def test_none_if_the_job_wants_none(program: Path, limits: dict[str, float]) -> None:
    started(program, OBEYS, **limits).end()
    assert not begun(program)


def test_none_for_ranks_that_end_soon(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "AFTER_S", 60.0)
    started(program, OBEYS, samples_s=2.0).end()
    assert not begun(program)


def test_no_process_to_be_had_is_no_reason_to_fail(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(program.parent / "none"))
    started(program, OBEYS, samples_s=2.0).end()
