"""The process that samples a host: real readings of this machine, and how often it takes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import daemon
from ddp_play.guard.processes import start_ticks
from ddp_play.guard.run_directory import HostRun, write_json
from ddp_play.guard.sample_file import rows_of
from ddp_play.guard.sampler import Pace
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = str(Path(daemon.__file__).parents[1])
BUSY = [sys.executable, "-c", "while True: pass"]


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    """A process that works."""
    with subprocess.Popen(BUSY) as made:
        yield made
        made.kill()


def sampler(place: HostRun, limit: str = "") -> subprocess.Popen[bytes]:
    """`limit`: words of a shell before the start."""
    code = f"import sys; sys.path.insert(0, {SOURCES!r}); from guard import sampler; sampler.main({str(place.root)!r})"
    argv = ["/bin/sh", "-c", limit + 'exec "$@"', "sh", sys.executable, "-I", "-S", "-c", code]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def state(pid: int, ticks: int | None) -> dict[str, Any]:
    return {"ranks": {"3": {"state": "running", "pid": pid, "ticks": ticks}, "4": {"state": "exited", "pid": 1}}}


def test_rows_of_the_host_and_of_the_ranks_until_stdin_is_closed(tmp_path: Path, rank: subprocess.Popen[bytes]) -> None:
    place = HostRun(tmp_path)
    write_json(place.spec, {"limits": {"samples_s": 0.5}})
    write_json(place.state, state(rank.pid, start_ticks(rank.pid)))
    with sampler(place) as child:
        wait_until(lambda: len(rows_of(read(place))) >= 3, timeout_s=60, what="three rows")
        taken = len(rows_of(read(place)))
        assert child.stdin is not None
        child.stdin.close()
        assert child.wait(30) == 0
    header = json.loads(read(place).split(b"\n")[0])
    rows = rows_of(read(place))
    assert header["cores"] == os.cpu_count()
    assert header["memory_total"] > 1 << 20
    assert len(rows) >= taken
    assert [set(row["ranks"]) for row in rows] == [{"3"}] * len(rows)
    assert 0.02 < max(row["ranks"]["3"]["cpu"] for row in rows) < 1.5
    assert all(row["cpu"] > 0 and row["memory"] > 0 for row in rows)
    assert [row["up"] for row in rows] == sorted(row["up"] for row in rows)


def read(place: HostRun) -> bytes:
    return place.samples.read_bytes() if place.samples.exists() else b""


def test_ranks_of_many_processes_leave_files_for_the_samples(tmp_path: Path) -> None:
    """Data loaders and compilers of eight ranks are more than 1024, the usual limit of open files."""
    place = HostRun(tmp_path)
    write_json(place.spec, {"limits": {"samples_s": 0.5}})
    children = (
        "import subprocess; [subprocess.Popen(['sleep', '60']) for _ in range(80)]; print(1, flush=True); input()"
    )
    words = [sys.executable, "-c", children]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as rank:
        assert rank.stdout is not None
        rank.stdout.readline()
        write_json(place.state, state(rank.pid, start_ticks(rank.pid)))
        try:
            with sampler(place, limit="ulimit -n 64; ") as child:
                wait_until(lambda: len(rows_of(read(place))) >= 2, timeout_s=60, what="two rows")
                child.terminate()
        finally:
            os.killpg(rank.pid, signal.SIGKILL)
    assert rows_of(read(place))[-1]["ranks"]["3"]["memory"] > 0


def test_it_ends_when_the_attempt_is_cleaned_up(tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    write_json(place.spec, {"limits": {"samples_s": 0.5}})
    with sampler(place) as child:
        wait_until(place.samples.exists, timeout_s=60, what="the file")
        place.samples.unlink()
        assert child.wait(60) == 1
        assert child.stderr is not None
        assert b"no samples of this host: " in child.stderr.read()


@pytest.mark.parametrize(("cost_s", "wait_s"), [(0.0, 2.0), (0.001, 2.0), (0.01, 10.0), (9.0, 30.0)])
def test_samples_that_cost_more_are_taken_less_often(cost_s: float, wait_s: float) -> None:
    pace = Pace(2.0)
    found = [pace.after(cost_s) for _ in range(100)]
    assert found[-1] == pytest.approx(wait_s, rel=1e-3)
    assert found[0] <= found[-1]
