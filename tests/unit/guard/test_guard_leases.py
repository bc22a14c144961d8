"""Slots and ports that a guard takes when it starts."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import guard_leases, guard_start, leases
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, read_json
from ddp_play.guard.state_directory import OF_HOST
from tests.unit.guard.host_program import Line
from tests.unit.guard.night_run import RUN, spec
from tests.unit.guard.test_daemon import command, end, guard, guard_over
from tests.waiting import wait_until

SLOTS = {"names": ["slot-0", "slot-1"], "need": 2}


def rank_in(directory: Path) -> list[dict[str, Any]]:
    """A rank that leaves a file when it starts."""
    env = {"PATH": os.environ["PATH"]}
    return [{"rank": 0, "argv": ["touch", str(directory / "started")], "env": env, "workdir": "/"}]


@pytest.mark.parametrize(
    ("names", "need", "taken", "held"), [(2, 1, 0, 1), (2, 2, 1, None), (2, 1, 1, 1), (0, 0, 0, 0)]
)
def test_a_guard_holds_its_slots_or_none(names: int, need: int, taken: int, held: int | None) -> None:
    all_names = [f"slot-{number}" for number in range(names)]
    others = leases.hold_slots(all_names, taken, leases.slot_scope())
    ours: list[leases.Lease] = []
    with pytest.raises(guard_leases.NotFreeError) if held is None else contextlib.nullcontext():
        ours = guard_leases.take_slots({"slots": {"names": all_names, "need": need}})
    assert len(ours) == (held or 0)
    assert guard_leases.take_slots({}) == []
    for lease in (*others, *ours):
        lease.close()


def test_a_lease_that_is_taken_is_named_with_its_holder() -> None:
    with leases.hold("port-7") or pytest.fail("it is free") as lease:
        assert leases.lost("port-7", None).startswith("port-7 by ")
        assert leases.lost("port-7", lease) == "port-7"
    assert leases.lost("port-7", None) == "port-7 by another run"


def test_a_guard_holds_its_leases_while_it_lives_and_answers_who_looks_at_them(tmp_path: Path) -> None:
    """Without answers the queue of connections fills up, and the holder could not be named any more."""
    wanted = {"leases": ["port-7"], "slots": SLOTS}
    with guard_over(tmp_path, rank_in(tmp_path), more=wanted) as (place, process):
        for name, scope in (("port-7", ""), ("slot-0", leases.slot_scope()), ("slot-1", leases.slot_scope())):
            assert leases.hold(name, scope) is None
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
                sock.settimeout(10)
                sock.connect(leases._address(name, scope))
                assert sock.recv(1) == b"", "accepted and closed"
        place.order("go")
        assert end(place, process)["reason"] == ""
    assert (tmp_path / "started").exists()
    for name in ("port-7", "port-8"):
        (leases.hold(name) or pytest.fail("it is free")).close()


@pytest.mark.parametrize(
    ("taken", "wanted", "reason"),
    [
        (("port-7", ""), {"leases": ["port-6", "port-7"]}, "lease taken: port-7 by process "),
        (("slot-1", "slots"), {"slots": SLOTS}, leases.SLOTS_TAKEN),
    ],
)
def test_a_guard_without_its_leases_starts_no_rank(
    tmp_path: Path, taken: tuple[str, str], wanted: dict[str, Any], reason: str
) -> None:
    """Its controller sees the reason, and its other leases are free again."""
    name, scope = taken[0], taken[1] and leases.slot_scope()
    with leases.hold(name, scope) or pytest.fail("it is free"):
        with guard_over(tmp_path, rank_in(tmp_path), more=wanted) as (place, process):
            place.order("go")
            assert end(place, process)["reason"].startswith(reason)
        for other, where in (("port-6", ""), ("slot-0", leases.slot_scope())):
            (leases.hold(other, where) or pytest.fail("it is free")).close()
    assert not (tmp_path / "started").exists()


def test_a_guard_of_a_new_run_starts_no_rank_on_a_host_that_was_drained_meanwhile(tmp_path: Path) -> None:
    """A mark that cannot be read counts as one."""
    host = Path(os.environ[OF_HOST])
    host.mkdir(parents=True, exist_ok=True)
    (host / "drain.json").write_text("until tomorrow")
    with guard_over(tmp_path, rank_in(tmp_path)) as (place, process):
        place.order("go")
        assert end(place, process)["reason"] == leases.SLOTS_TAKEN
    assert not (tmp_path / "started").exists()


def test_a_guard_whose_port_for_mpi_is_taken_starts_no_rank(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        pmi = {"address": "127.0.0.1", "port": other.getsockname()[1], "size": 1}
        with guard_over(tmp_path, rank_in(tmp_path), more={"pmi": pmi}) as (place, process):
            place.order("go")
            assert end(place, process)["reason"].startswith("port taken: ")
    assert not (tmp_path / "started").exists()


def test_an_attempt_has_one_guard(tmp_path: Path) -> None:
    """A second one would start its ranks again."""
    with guard(tmp_path, f"echo >> {tmp_path}/started; sleep 100") as (place, process):
        place.order("go")
        wait_until((tmp_path / "started").exists)
        second = subprocess.run(command(place), capture_output=True, text=True, timeout=30, check=False)
        assert second.returncode != 0
        assert "BlockingIOError" in second.stderr
        assert (read_json(place.state) or {})["guard_pid"] == process.pid
        process.terminate()
        end(place, process)
    assert (tmp_path / "started").read_text() == "\n"


def test_a_guard_without_a_readable_spec_says_so(tmp_path: Path) -> None:
    place = HostRun(tmp_path / "1.h1")
    place.root.mkdir()
    found = subprocess.run(command(place), capture_output=True, text=True, timeout=30, check=False)
    assert (found.returncode, found.stderr) == (1, f"no readable {place.spec}\n")


@pytest.mark.parametrize("repetition", range(4))
def test_a_port_that_was_lost_is_not_reported_as_slots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repetition: int
) -> None:
    """The controller tries another port then; the slots that it would read about were those of its own guard."""
    monkeypatch.setattr(leases, "SCOPE", "ddp-play")  # that of the real program
    port = leases.lease_port(41000, 41999, []) or pytest.fail("no port is free")
    wanted = {**spec("true", tmp_path), "source": {"role": "none"}, "leases": [f"port-{port.port}"], "slots": SLOTS}
    with port.handle, Line(tmp_path) as line:
        line.ask("open", **RUN)
        answer = line.ask("prepare", spec=wanted)
    assert (answer.get("error"), answer.get("message", "").split(" by ")[0]) == (
        "busy", f"lease taken: port-{port.port}",
    ), answer  # fmt: skip


def test_the_holders_of_slots_are_named_only_where_slots_were_missing() -> None:
    with leases.hold("slot-0", leases.slot_scope()) or pytest.fail("it is free"):
        assert guard_start._not_started({"slots": SLOTS}, "lease taken: port-7").kind == "busy"
        with pytest.raises(Refused, match="1 of 2 slots free and 2 needed"):
            guard_start._not_started({"slots": SLOTS}, leases.SLOTS_TAKEN)
