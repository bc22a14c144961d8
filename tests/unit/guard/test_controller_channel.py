"""The channel's far end as a real process: orders and answers over its pipes, a guard and a rank below it."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.run_directory import HostRun, read_json
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import FROM_START, RUN, prepared, source, spec
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    """Where the run of these tests lives."""
    return HostRun(tmp_path / "runs" / "night.0123456789abcdef" / "1.h1")


def test_a_run_from_open_to_clean(line: Line, place: HostRun, tmp_path: Path) -> None:
    opened = line.ask("open", **RUN)
    assert opened["key"] == "night.0123456789abcdef"
    assert (opened["dir"], opened["state"], opened["guard_alive"]) == (str(place.root), {}, False)
    assert line.ask("claim", shared=[]) == {"t": "claimed"}
    prepared(line, "cat word; echo result > new; exit 3", tmp_path)
    assert "lo" in line.ask("go", by="kim")["counters"]
    line.order("follow", **FROM_START)
    frames = line.until("state")
    while frames[-1][0]["state"]["phase"] != "ended":
        frames += line.until("state")
    assert b"".join(payload for header, payload in frames if header["t"] == "log") == b"hello"
    assert frames[-1][0]["state"]["ranks"]["0"]["exit_code"] == 3
    assert frames[-1][0]["state"]["key"] == "night.0123456789abcdef"
    line.order("drain", id=4)
    assert line.until("drained")[-1][0]["id"] == 4
    line.order("fetch", max_bytes=1000, patterns=["new"])
    *files, (fetched, _) = line.until("fetched")
    assert b"".join(payload for _, payload in files) == b"result\n"
    digest = hashlib.sha256(b"result\n").hexdigest()
    assert (fetched["missing"], [row["sha256"] for row in fetched["artifacts"]]) == ([], [digest])
    assert line.ask("clean") == {"t": "cleaned", "left": [], "alive": [], "kept": []}
    assert not place.root.exists()
    line.order("bye")
    assert line.process.wait(20) == 0


def test_a_host_that_prepares_sends_heartbeats(line: Line, tmp_path: Path) -> None:
    """One that lost power meanwhile was noticed when TCP gave up, after a quarter of an hour."""
    line.ask("open", **RUN)
    line.order("prepare", spec={**spec("true", tmp_path), "source": {**source(tmp_path), "role": "wait", "wait_s": 60}})
    for _ in range(3):
        (beat, _payload) = line.until("beat")[-1]
        assert not beat["guard_gone"]
    line.order("withdraw")
    *late, (refused, _payload) = line.until("refused")
    assert refused["error"] == "withdrawn"
    assert {header["t"] for header, _ in late} <= {"beat"}


def test_a_host_that_waits_for_the_source_stops_when_the_order_is_withdrawn(line: Line, tmp_path: Path) -> None:
    """A host that refused left the others waiting for its source for 60 s."""
    line.ask("open", **RUN)
    waits = {**spec("true", tmp_path), "source": {**source(tmp_path), "role": "wait", "wait_s": 60}}
    began = time.monotonic()
    line.order("prepare", spec=waits)
    line.order("beat", id=7)
    line.order("withdraw")
    *_, (refused, _) = line.until("refused")
    assert (refused["order"], refused["error"]) == ("prepare", "withdrawn")
    assert time.monotonic() - began < 30
    assert line.until("beat")[-1][0]["id"] == 7, "orders that came meanwhile are executed"
    assert line.ask("open", **RUN)["state"] == {}, "a late withdrawal is no order"


def test_the_newest_file_that_shows_progress(line: Line, tmp_path: Path) -> None:
    line.ask("open", **RUN)
    assert line.ask("progress") == {"t": "progressed", "newest": None}
    (tmp_path / "step-1.pt").write_text("weights")
    assert line.ask(
        "prepare", spec={**spec("true", tmp_path), "source": {"role": "none"}, "progress": f"{tmp_path}/*.pt"}
    )
    newest = line.ask("progress")["newest"]
    assert (newest["path"], newest["size"]) == (str(tmp_path / "step-1.pt"), 7)
    assert newest["age_s"] < 60
    assert line.ask("clean")["left"] == []


@pytest.mark.parametrize("order", ["prepare", "go", "follow", "fetch", "clean"])
def test_orders_about_a_run_need_one(line: Line, order: str) -> None:
    answer = line.ask(order, spec={}, patterns=[])
    assert (answer["t"], answer["order"], answer["error"]) == ("refused", order, "internal")
    assert answer["message"] == "no run was opened on this channel"


def test_before_a_run_is_opened_a_heartbeat_keeps_the_channel(line: Line) -> None:
    answer = line.ask("beat", id=3)
    assert (answer["t"], answer["id"], answer["guard_gone"]) == ("beat", 3, False)


def test_facts_need_no_run(line: Line, tmp_path: Path) -> None:
    line.order("facts", wanted={"shared_dir": str(tmp_path), "limit_s": 60})
    header, payload = line.frame()
    found = json.loads(payload)
    assert header["t"] == "facts"
    assert found["shared"]["writable"] is True
    assert found["runs"] == []
    assert line.ask("beat")["t"] == "beat", "the channel goes on"


def test_an_unknown_order_is_refused_and_the_line_goes_on(line: Line) -> None:
    answer = line.ask("dance")
    assert (answer["t"], answer["error"], answer["message"]) == ("refused", "internal", "unknown order dance")
    assert line.ask("open", **RUN)["t"] == "opened"


def test_a_port_is_leased_once(line: Line, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        refused = line.ask("lease_port", range=[port, port])
    assert (refused["t"], refused["error"]) == ("refused", "busy")
    assert f"no free port between {port} and {port}" in refused["message"]
    assert line.ask("lease_port", range=[port, port]) == {"t": "leased", "port": port}
    with Line(tmp_path) as other:
        assert other.ask("lease_port", range=[port, port])["t"] == "refused"


def test_a_name_that_another_run_has_is_refused(line: Line, place: HostRun) -> None:
    other = place.root.parent.with_name("night.fedcba9876543210")
    (other / "1.h1").mkdir(parents=True)
    line.ask("open", **RUN)
    refused = line.ask("claim", shared=[])
    assert (refused["t"], refused["error"]) == ("refused", "name_taken")
    assert str(other) in refused["message"]
    assert not place.root.exists()


def test_a_place_in_the_queue_for_slots_lasts_as_long_as_the_channel(line: Line, tmp_path: Path) -> None:
    line.ask("open", **RUN)
    slots: dict[str, Any] = {"names": ["slot-0"], "need": 1, "host": "h1", "owner": "kim", "controller": "login2"}
    assert line.ask("queue", **slots, time=None)["clock"] == pytest.approx(time.time(), abs=5)
    assert line.ask("queue", **slots, time=100.0)["ready"]
    with Line(tmp_path) as other:
        other.ask("open", **{**RUN, "run": "day", "token": "fedcba9876543210"})
        behind = other.ask("queue", **slots, time=101.0)
        assert (behind["ready"], behind["ahead"][0]["run"]) == (False, RUN["run"])
        assert behind["problem"] == "1 of 1 slots free and 1 needed; reserved for runs that have waited longer"
        line.process.kill()
        wait_until(lambda: other.ask("queue", **slots, time=101.0)["ready"])


def test_of_two_controllers_that_claim_a_name_at_once_one_is_refused(line: Line, tmp_path: Path) -> None:
    line.ask("open", **RUN)
    assert line.ask("claim", shared=[])["t"] == "claimed"
    with Line(tmp_path) as second:
        second.ask("open", **{**RUN, "token": "fedcba9876543210"})
        refused = second.ask("claim", shared=[])
        assert (refused["t"], refused["error"]) == ("refused", "name_taken"), refused
        assert f"process {line.process.pid} of" in refused["message"]
        line.hang_up()
        assert second.ask("claim", shared=[])["t"] == "claimed", "the first one has given up before it prepared"


def test_two_hosts_of_an_inventory_that_are_one_machine_claim_one_name(line: Line, tmp_path: Path) -> None:
    with Line(tmp_path) as other:
        for number, channel in enumerate((line, other)):
            channel.ask("open", **{**RUN, "host": f"h{number}"})
            assert channel.ask("claim", shared=[])["t"] == "claimed"


def test_what_ranks_do_is_captured_and_they_are_frozen(line: Line, place: HostRun, tmp_path: Path) -> None:
    prepared(line, "echo ready; exec sleep 100", tmp_path)
    line.ask("go")
    wait_until(lambda: place.log(0).read_bytes() == b"ready\n")
    line.order("capture")
    (file, text), (captured, _) = line.until("captured")
    assert (file["file"], file["rank"], file["last"]) == ("proc", 0, True)
    assert b"sleep 100" in text
    assert captured["ranks"]["0"]["pid"] == (read_json(place.state) or {})["ranks"]["0"]["pid"]
    line.ask("stop", reason="hung", now=True)
    wait_until(lambda: (read_json(place.state) or {})["phase"] == "ended")
    assert line.ask("clean")["left"] == []


def test_a_dump_that_was_cut_off_is_sent_again_as_a_whole(line: Line, place: HostRun, tmp_path: Path) -> None:
    """On a new connection; the host has what the first one brought."""
    prepared(line, "true", tmp_path)
    line.order("dump", b"first half", rank=0)
    line.ask("beat")
    line.hang_up()
    with Line(tmp_path) as second:
        second.ask("open", **RUN)
        assert second.ask("analyse")["message"] == "no dump of the flight recorder was sent on this connection"
        for piece in (b"first half", b", second half"):
            second.order("dump", piece, rank=0)
        second.order("dump", b"other", rank=1)
        assert second.ask("analyse")["t"] == "analysed"
        found = {path.name: path.read_bytes() for path in place.flight_recorder.iterdir()}
        assert found == {"rank_0": b"first half, second half", "rank_1": b"other"}
        assert second.ask("clean")["left"] == []
