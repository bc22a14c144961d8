"""Removals at the same time, and what removals, starts and verbs left that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ddp_play.bundle.paths import RunPaths, home, write_json
from ddp_play.bundle.removal import half_removed, sweep
from ddp_play.bundle.removal_plan import DAY_S
from ddp_play.bundle.run_lookup import all_runs
from ddp_play.bundle.verb_paths import VERBS, VerbPaths
from tests.unit.cli.run_directories import make_run
from tests.waiting import wait_until


def left() -> list[str]:
    return sorted(path.name for path in (home() / "runs").iterdir())


REMOVE_ALL = """
import sys, time
from ddp_play.bundle.removal import record_of, remove
from ddp_play.bundle.removal_plan import Rules
from ddp_play.bundle.run_lookup import all_runs
from ddp_play.errors import Busy
records = [record_of(run) for run in all_runs()]
print(len(records), flush=True)
sys.stdin.readline()
gone = 0
for record in records:
    try:
        gone += remove(record, Rules())
    except Busy:
        pass
print(gone)
"""


def child(code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "DDP_PLAY_HOME": str(home())}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_removals_at_once_remove_each_bundle_once() -> None:
    for number in range(40):
        make_run(f"run-{number}", logs=(b"x",) * 3)
    children = [child(REMOVE_ALL), child(REMOVE_ALL)]
    for one in children:
        assert one.stdout is not None
        assert one.stdout.readline() == "40\n"
    for one in children:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    counts = [int(one.communicate(timeout=60)[0]) for one in children]
    assert [one.returncode for one in children] == [0, 0]
    assert sum(counts) == 40
    assert left() == []


STOP_HALF_WAY = """
import os, signal, shutil
from ddp_play.bundle import removal
from ddp_play.bundle.removal_plan import BundleRecord, Rules
unlink, seen = os.unlink, []
def slow(*words, **more):
    unlink(*words, **more)
    seen.append(1)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGSTOP)
os.unlink = slow
removal.remove(BundleRecord("old"), Rules())
"""


def test_a_removal_that_is_killed_half_way_is_ended_by_the_next() -> None:
    make_run("old", logs=(b"x",) * 8)
    process = child(STOP_HALF_WAY)
    wait_until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "T", what="it is half way")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    (rest,) = half_removed()
    assert 0 < sum(path.is_file() for path in rest.rglob("*")) < 13
    assert all_runs() == []
    assert sweep() == []
    assert left() == []


def started(name: str, *, seconds_ago: float) -> Path:
    """The directory of a start that ended before run.json."""
    paths = RunPaths(home() / "runs" / name)
    paths.create()
    os.utime(paths.root, (time.time() - seconds_ago,) * 2)
    return paths.root


def test_what_a_killed_start_left_goes() -> None:
    old = started("old", seconds_ago=70.0)
    (old / ".run.json.abc").touch()
    os.utime(old, (time.time() - 70.0,) * 2)
    started("now", seconds_ago=0.0)
    (started("logs", seconds_ago=70.0) / "logs" / "rank-0.log").touch()
    make_run("run")
    assert half_removed() == [old]
    assert sweep() == []
    assert left() == ["logs", "now", "run"]


def test_a_link_with_a_hidden_name_is_not_swept(tmp_path: Path) -> None:
    make_run("other")
    (tmp_path / "data").mkdir()
    (home() / "runs" / ".removed-x-1").symlink_to(tmp_path / "data")
    assert half_removed() == []
    assert sweep() == []
    assert (tmp_path / "data").is_dir()


def make_verb(name: str, *, age_s: float) -> VerbPaths:
    """The directory of a verb in an allocation, whose last change is this old."""
    paths = VerbPaths(home() / VERBS / name)
    write_json(paths.order, {})
    paths.lock.touch()
    changed = time.time() - age_s
    for path in (*paths.root.iterdir(), paths.root):
        os.utime(path, (changed, changed))
    return paths


def test_what_a_killed_check_on_an_allocation_left_goes_after_a_day() -> None:
    for name, age_s in (("check-old", 2 * DAY_S), ("bench-attended", 2 * DAY_S), ("check-new", 0.9 * DAY_S)):
        make_verb(name, age_s=age_s)
    still_written = make_verb("check-written", age_s=2 * DAY_S)
    still_written.out.write_text("its job goes on\n")
    changed = time.time() - 2 * DAY_S
    os.utime(still_written.root, (changed, changed))
    with VerbPaths(home() / VERBS / "bench-attended").attended():
        assert [path.name for path in half_removed()] == ["check-old"]
        assert sweep() == []
    stay = ["bench-attended", "check-new", "check-written"]
    assert sorted(path.name for path in (home() / VERBS).iterdir()) == stay
    assert [path.name for path in half_removed()] == ["bench-attended"]
