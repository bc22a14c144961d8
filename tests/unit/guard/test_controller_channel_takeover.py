"""A second channel goes on with a run whose first one ended: real processes, a guard and a rank below them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.run_directory import HostRun, read_json
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import FROM_START, RUN, prepared
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    """Where the run of these tests lives."""
    return HostRun(tmp_path / "runs" / "night.0123456789abcdef" / "1.h1")


def test_a_rank_that_truncates_its_log_loses_no_line_silently(line: Line, tmp_path: Path) -> None:
    """`> /dev/stderr` opens the log itself and truncates it; a second channel goes on where the first one was."""
    wait = "until [ -e %s ]; do sleep 0.02; done; "
    script = "echo first; " + wait % "a" + "echo told > /dev/stderr; echo then; " + wait % "b" + "echo last"
    prepared(line, script, tmp_path)
    line.ask("go")
    line.order("follow", **FROM_START)
    log = line.until("log")[-1][1]
    (tmp_path / "src" / "a").touch()
    while not log.endswith(b"then\n"):
        frame, piece = line.until("log")[-1]
        assert frame["at"] == len(log)
        log += piece
    line.hang_up()
    with Line(tmp_path) as again:
        again.ask("open", **RUN)
        again.order("follow", **{**FROM_START, "logs": {"0": len(log)}})
        (tmp_path / "src" / "b").touch()
        frames = again.until("state")
        while frames[-1][0]["state"]["phase"] != "ended":
            frames += again.until("state")
        ((frame, piece),) = [pair for pair in frames if pair[0]["t"] == "log"]
        assert (log + piece, frame["at"]) == (b"first\ntold\nthen\nlast\n", len(log))
        again.order("drain", id=1)
        (damaged,) = again.until("drained")[-1][0]["logs"]
        assert damaged["rank"] == 0
        assert damaged["why"].startswith("the rank truncated it")
        assert again.ask("clean")["left"] == []


def test_the_guard_outlives_its_channel_and_the_next_one_takes_over(line: Line, place: HostRun, tmp_path: Path) -> None:
    prepared(line, "echo ready; sleep 100", tmp_path)
    line.ask("go")
    wait_until(lambda: place.log(0).read_bytes() == b"ready\n")
    assert line.hang_up() == 0
    with Line(tmp_path) as second:
        opened = second.ask("open", **RUN)
        assert (opened["guard_alive"], opened["state"]["phase"]) == (True, "running")
        second.order("follow", **{**FROM_START, "logs": {"0": 2}})
        frames = second.until("state")
        assert [(header["at"], payload) for header, payload in frames if header["t"] == "log"] == [(2, b"ady\n")]
        second.order("beat", id=9, seen=opened["uptime"])
        beat = second.until("beat")[-1][0]
        assert (beat["id"], beat["guard_gone"]) == (9, False)
        assert not place.lease.exists(), "the guard has it in memory"
        second.order("stop", reason="enough", now=True)
        second.until("stopping")
        wait_until(lambda: (read_json(place.state) or {})["phase"] == "ended")
        second.order("clean")
        assert second.until("cleaned")[-1][0]["left"] == []
    assert not place.root.exists()


def test_what_no_controller_has_collected_outlives_the_cleanup(line: Line, place: HostRun, tmp_path: Path) -> None:
    """The channel broke before `drain`: the only copy of the log's end and of the result was removed."""
    prepared(line, f"echo last words; echo '{{}}' > {place.rank_dir(0)}/result.json; exit 3", tmp_path)
    line.ask("go")
    wait_until(lambda: (read_json(place.state) or {})["phase"] == "ended")
    answer = line.ask("clean", keep_src=True, keep=["logs", "rank-0"], run_paths=[])
    assert answer["left"] == []
    assert answer["kept"] == [str(place.logs), str(place.rank_dir(0))]
    assert not place.secrets.exists()
    assert not place.env.exists()
    line.hang_up()
    with Line(tmp_path) as later:
        opened = later.ask("open", **RUN)
        assert (opened["has_logs"], opened["guard_alive"], opened["state"]["phase"]) == (True, False, "ended")
        later.order("follow", **FROM_START)
        later.order("drain", id=1)
        frames = later.until("drained")
        assert b"".join(payload for header, payload in frames if header["t"] == "log") == b"last words\n"
        later.order("fetch", max_bytes=1000, patterns=[])
        assert next(body for header, body in later.until("fetched") if header.get("file") == "result.json") == b"{}\n"
        assert later.ask("clean") == {"t": "cleaned", "left": [], "alive": [], "kept": []}
    assert not place.root.exists()
