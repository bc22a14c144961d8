"""Attempts of other versions: those with a known number are served, those with an unknown one are never changed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import format_check, leftovers, processes
from ddp_play.guard.control_socket import ControlClient, ControlServer
from ddp_play.guard.guard_link import GuardLink, look
from ddp_play.guard.orders import STOP, Orders
from ddp_play.guard.protocol import OLDEST_PROTOCOL, PROTOCOL
from ddp_play.guard.run_directory import HostRun, read_json, write_json
from ddp_play.run import host_program
from tests.unit.guard.host_program import Line, start
from tests.unit.guard.night_run import RUN, prepared
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

# Files of a run that the last version without a number wrote. Places of this machine are replaced.
RECORDED = Path(__file__).with_name("protocol_0")
LATER = PROTOCOL + 1


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    """Directory of an attempt, as hosts name it."""
    found = HostRun(tmp_path / "runs" / "night.0123456789abcdef" / "1.h1")
    found.root.mkdir(parents=True)
    return found


def recorded(place: HostRun, *, guard_pid: int) -> HostRun:
    """The attempt of the version without a number, with this process as its guard."""
    for name in ("spec.json", "state.json"):
        text = (RECORDED / name).read_text().replace("@PLACE@", str(place.root)).replace("@BOOT@", processes.boot_id())
        document: dict[str, Any] = json.loads(text)
        if name == "state.json":
            document.update(guard_pid=guard_pid, guard_ticks=processes.start_ticks(guard_pid), ranks={})
        write_json(place.root / name, document)
    for directory in ("control", "logs", "env", "src", "rank-0"):
        (place.root / directory).mkdir()
    return place


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


# -- earlier versions ----------------------------------------------------------------------------------
def test_an_attempt_without_a_number_is_served_by_its_files(place: HostRun) -> None:
    recorded(place, guard_pid=os.getpid())
    assert format_check.format_problem(place) == ""
    link = GuardLink(place)
    state, alive = link.look()
    assert (state["phase"], alive) == ("running", True)
    link.order(STOP, {"reason": "asked"})
    link.renew(12.5)
    assert place.ordered(STOP) == {"reason": "asked"}
    assert float(place.lease.read_text()) == 12.5, "the number that the version without a number reads"
    link.close()


def test_an_ended_attempt_without_a_number_is_cleaned(place: HostRun) -> None:
    recorded(place, guard_pid=2**22 + 1)
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


@pytest.mark.parametrize("number", range(OLDEST_PROTOCOL, PROTOCOL + 1))
def test_each_known_number_is_cleaned(place: HostRun, number: int) -> None:
    write_json(place.spec, {"protocol": number, "ranks": []})
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


# -- unknown formats -----------------------------------------------------------------------------------
def later_spec(place: HostRun) -> None:
    write_json(place.spec, {"protocol": LATER, "version": "9.9", "units": []})


def later_state(place: HostRun) -> None:
    write_json(place.spec, {"ranks": []})
    write_json(place.state, {"protocol": LATER, "version": "9.9", "ranks": ["none of our shape"]})


def no_number(place: HostRun) -> None:
    write_json(place.spec, {"protocol": "two", "ranks": []})


def broken_spec(place: HostRun) -> None:
    place.spec.write_text("[1, 2")


def other_layout(place: HostRun) -> None:
    (place.root / "attempt.sqlite").write_bytes(b"of another layout")


UNKNOWN = [later_spec, later_state, no_number, broken_spec, other_layout]


@pytest.mark.parametrize("make", UNKNOWN)
def test_an_unknown_format_is_named_and_never_changed(
    place: HostRun, make: Callable[[HostRun], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make(place)
    before = contents(tmp_path)
    (left,) = leftovers.clean(place).left
    assert str(place.root) in left
    assert "left alone" in left
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path))
    (row,) = leftovers.runs()
    assert str(place.root) in row["unknown"]
    assert row["phase"] == "unknown"
    assert json.dumps(row)
    assert contents(tmp_path) == before


def test_a_channel_to_an_unknown_format_is_refused_and_changes_nothing(place: HostRun, tmp_path: Path) -> None:
    later_spec(place)
    before = contents(place.root)
    with Line(tmp_path) as line:
        refused = line.ask("open", **RUN)
        assert (refused["t"], refused["error"]) == ("refused", "version"), refused
        assert line.ask("clean")["t"] == "refused", "no run is open on this channel"
    assert contents(place.root) == before


def test_the_message_names_the_version_and_both_numbers(place: HostRun) -> None:
    later_spec(place)
    why = format_check.format_problem(place)
    assert why == (
        f"{place.root} was written by ddp-play 9.9 with protocol {LATER}, and this ddp-play knows protocols "
        f"{OLDEST_PROTOCOL} to {PROTOCOL}"
    )


def test_gc_by_name_removes_no_unknown_format_either(place: HostRun, tmp_path: Path) -> None:
    later_spec(place)
    order = json.dumps({"paths": [str(place.root)], "living_too": True})
    out, err = start(tmp_path, "clean", order).communicate(timeout=60)
    assert b"left alone" in out, err
    assert place.spec.exists()


@pytest.mark.parametrize(
    "entries", [[], ["channel.lock"], ["logs/", "env/", "rank-0/", "src.archive", "src.tar", ".spec.jsonab12"]]
)
def test_a_preparation_that_was_interrupted_is_cleaned(place: HostRun, entries: list[str]) -> None:
    for entry in entries:
        path = place.root / entry.rstrip("/")
        path.mkdir() if entry.endswith("/") else path.touch()
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


def test_a_crash_that_left_an_empty_spec_is_cleaned(place: HostRun) -> None:
    place.spec.touch()
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


def test_an_attempt_that_another_gc_removes_meanwhile_is_no_unknown_format(
    place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(place, guard_pid=os.getpid())

    def removed(path: Path) -> Any:
        path.unlink()
        return read_json(path)

    monkeypatch.setattr(format_check, "read_json", removed)
    assert format_check.format_problem(place, {}) == ""


def test_a_directory_without_an_attempt_number_is_left_alone(tmp_path: Path) -> None:
    place = HostRun(tmp_path / "runs" / "night.0123456789abcdef" / "h1")
    place.root.mkdir(parents=True)
    assert "not the directory of an attempt" in format_check.format_problem(place)


def test_an_order_of_a_later_controller_is_refused(tmp_path: Path) -> None:
    with Line(tmp_path) as line:
        refused = line.ask("open", **RUN, protocol=LATER, version="9.9")
        assert (refused["t"], refused["error"]) == ("refused", "version")
        assert "ddp-play 9.9" in refused["message"]


# -- real guards of another number ---------------------------------------------------------------------
def program_of(number: int, oldest: int = OLDEST_PROTOCOL) -> bytes:
    """The program on hosts with another number."""
    source = (host_program.GUARD / "protocol.py").read_text()
    patched = source.replace(f"\nPROTOCOL = {PROTOCOL}\n", f"\nPROTOCOL = {number}\n")
    patched = patched.replace(f"\nOLDEST_PROTOCOL = {OLDEST_PROTOCOL}\n", f"\nOLDEST_PROTOCOL = {oldest}\n")
    assert patched != source
    return host_program.zipped({"protocol.py": patched.encode()})


def guard_of(root: Path, number: int, oldest: int = OLDEST_PROTOCOL) -> None:
    """A run with a living guard of this number; the channel that prepared it is gone."""
    with Line(root, zipped=program_of(number, oldest)) as line:
        prepared(line, "sleep 100", root)
        line.order("go")
        line.until("going")
        write_number(root, number)


def write_number(root: Path, number: int) -> None:
    """The controller of that version writes the number to the spec."""
    (spec,) = root.glob("runs/*/*/spec.json")
    write_json(spec, {**(read_json(spec) or {}), "protocol": number})


def rank_pid(root: Path) -> int:
    (path,) = root.glob("runs/*/*/state.json")
    return int(wait_until(lambda: (read_json(path) or {})["ranks"]["0"].get("pid"), what="the rank"))


def test_a_guard_of_an_earlier_number_takes_orders(tmp_path: Path) -> None:
    guard_of(tmp_path, OLDEST_PROTOCOL)
    with Line(tmp_path) as line:
        opened = line.ask("open", **RUN)
        assert (opened["t"], opened["guard_alive"], opened["state"]["protocol"]) == ("opened", True, OLDEST_PROTOCOL)
        line.order("stop", reason="asked", now=True)
        line.until("stopping")
        pid = rank_pid(tmp_path)
        wait_until(lambda: not processes.alive(pid, processes.start_ticks(pid) or 0), what="the end of the rank")
        assert line.ask("clean", run_paths=[])["left"] == []


def test_a_guard_of_a_later_number_and_its_ranks_are_left_alone(tmp_path: Path) -> None:
    guard_of(tmp_path, LATER)
    pid = rank_pid(tmp_path)
    ticks = processes.start_ticks(pid) or 0
    with Line(tmp_path) as line:
        assert line.ask("open", **RUN)["error"] == "version"
    place = HostRun.at(f"{RUN['run']}.{RUN['token']}", 1, "h1")
    place = HostRun(tmp_path / "runs" / place.root.parent.name / place.root.name)
    assert "left alone" in leftovers.clean(place).left[0]
    assert processes.alive(pid, ticks)
    os.kill(look(place)[0]["guard_pid"], signal.SIGTERM)
    wait_until(lambda: not processes.alive(pid, ticks), what="the end of the rank")


def test_a_guard_ends_the_connection_of_a_channel_below_its_oldest_number(place: HostRun) -> None:
    server = ControlServer(place.root, Orders())
    server.publish({"phase": "running", "protocol": LATER})
    client = ControlClient(place.root, [os.geteuid()])
    assert client.first_state(5.0) is not None
    client.hello()
    client._send({"t": "hello", "protocol": LATER})
    wait_until(lambda: client.read(0.1) is None or not client.is_open, what="the end of the connection")
    assert not client.is_open
    server.close()
