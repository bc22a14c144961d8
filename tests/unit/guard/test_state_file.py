"""Guard and channel as real processes on a state directory that no longer takes a byte."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes, state_file
from ddp_play.guard.run_directory import HostRun, read_json
from ddp_play.guard.state_file import StateFile
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import FROM_START, RUN, prepared
from tests.unit.guard.test_daemon import LIMITS
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system")

FILL = "cat /dev/zero >filler 2>/dev/null; "


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes for the state directory of a host."""
    where = tmp_path / "disk"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(where)], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def place_on(disk: Path) -> HostRun:
    return HostRun(disk / "runs" / "night.0123456789abcdef" / "1.h1")


def fill(disk: Path) -> None:
    """Until not one byte fits."""
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while filler.write(bytes(size)):
                    pass


def started(line: Line, disk: Path, script: str) -> int:
    """The pid of the rank."""
    prepared(line, script, disk)
    line.ask("go")

    def pid() -> Any:
        return (read_json(place_on(disk).state) or {}).get("ranks", {}).get("0", {}).get("pid")

    return int(wait_until(pid))


@pytest.fixture
def fragile(tmp_path: Path) -> Iterator[Path]:
    """A file system that turns read-only when `break_it` is called, files open for writing or not."""
    image, where = tmp_path / "image", tmp_path / "fragile"
    where.mkdir()
    with image.open("wb") as handle:
        handle.truncate(8 << 20)
    made = subprocess.run(["mkfs.ext4", "-q", str(image)], capture_output=True, check=False)
    options = ["mount", "-o", "loop,errors=remount-ro", str(image), str(where)]
    if made.returncode or subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("no loop device with ext4 can be mounted here")
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", str(where)], check=True)


def break_it(where: Path) -> None:
    """As after an error of the disk."""
    rows = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    device = next(Path(row[0]).name for row in rows if row[1] == str(where))
    Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("1")
    with pytest.raises(OSError, match="Read-only"):
        (where / "probe").touch()


def final_state(line: Line) -> dict[str, Any]:
    """The first state of an ended guard that the channel sends."""
    while True:
        header = line.until("state")[-1][0]
        if header["state"]["phase"] == "ended":
            return dict(header["state"])


def test_orders_and_states_pass_a_full_disk(disk: Path) -> None:
    with Line(disk) as line:
        pid = started(line, disk, "echo ready; exec sleep 100")
        fill(disk)
        line.order("follow", **FROM_START)
        line.order("beat", id=7, seen=1.0)
        assert line.until("beat")[-1][0]["guard_gone"] is False
        line.order("stop", reason="enough", now=True)
        state = final_state(line)
        assert (state["reason"], state["ranks"]["0"]["signal"], state["ranks"]["0"]["stopped"]) == ("enough", 9, True)
        assert not processes.alive(pid, None)
        line.order("clean")
        assert line.until("cleaned")[-1][0]["left"] == []
    assert list((disk / "runs").iterdir()) == []


def test_a_lease_needs_no_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats renew it, and without them it ends the ranks, in time."""
    monkeypatch.setitem(LIMITS, "lease_s", 4.0)
    monkeypatch.setitem(LIMITS, "grace_s", 0.5)
    with Line(disk) as line:
        pid = started(line, disk, "trap '' TERM; while :; do sleep 1; done")
        fill(disk)
        began = time.monotonic()
        while time.monotonic() - began < 9:
            line.order("beat", id=1, seen=processes.uptime_s())
            assert line.until("beat")[-1][0]["guard_gone"] is False
            time.sleep(0.2)
        assert processes.alive(pid, None), "the controller was there all the time"
    quiet = time.monotonic()
    wait_until(lambda: not processes.alive(pid, None), timeout_s=20)
    assert time.monotonic() - quiet < 4.0 + 0.5 + 10.0


def test_a_disk_that_turned_read_only_stops_neither_orders_nor_states(fragile: Path) -> None:
    """The last state is kept in memory until somebody cleans up, and another channel can still connect."""
    with Line(fragile) as line:
        pid = started(line, fragile, "echo ready; exec sleep 100")
        break_it(fragile)
    with Line(fragile) as line:
        opened = line.ask("open", **RUN)
        assert (opened["t"], opened["guard_alive"]) == ("opened", True)
        line.order("follow", **FROM_START)
        line.order("stop", reason="enough", signal="SIGTERM", grace_s=5)
        state = final_state(line)
        assert (state["reason"], state["ranks"]["0"]["signal"]) == ("enough", 15)
        assert "Read-only file system" in state["disk_problem"]
        assert not processes.alive(pid, None)
        line.order("clean")
        left = line.until("cleaned")[-1][0]["left"]
        assert "Read-only" in left[0]
        wait_until(lambda: not processes.alive(state["guard_pid"], state["guard_ticks"]))


def test_a_rank_that_fails_on_a_full_disk_says_that_its_log_is_incomplete(disk: Path) -> None:
    with Line(disk) as line:
        prepared(line, FILL + "exit 3", disk)
        line.ask("go")
        line.order("follow", **FROM_START)
        row = final_state(line)["ranks"]["0"]
        assert row["exit_code"] == 3
        assert "its log is incomplete" in row["detail"]
        assert "No space left on device" in row["detail"]


def test_an_unchanged_state_tries_the_disk_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = StateFile(tmp_path / "state.json")
    file.write({"phase": "running"})
    assert (file.stored, file.problem) == (True, "")
    (tmp_path / "state.json").unlink()
    file.write({"phase": "running"})
    assert not (tmp_path / "state.json").exists()
    monkeypatch.setattr(state_file, "CHECK_S", 0.0)
    file.write({"phase": "running"})
    assert read_json(tmp_path / "state.json") == {"phase": "running"}
