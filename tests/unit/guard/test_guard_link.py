"""The state and the orders of an attempt with a guard that listens, one that has ended, and one that uses files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import guard_link, processes
from ddp_play.guard.control_socket import ControlServer
from ddp_play.guard.guard_link import DISK_PROBLEM, GuardLink
from ddp_play.guard.orders import STOP, Orders
from ddp_play.guard.run_directory import HostRun, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "1.h1")
    made.control.mkdir(parents=True)
    return made


@pytest.fixture
def link(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardLink]:
    monkeypatch.setattr(guard_link, "RECONNECT_S", 0.0)
    made = GuardLink(place)
    yield made
    made.close()


def state(phase: str, **more: Any) -> dict[str, Any]:
    pid = os.getpid()
    identity = {"boot": processes.boot_id(), "guard_pid": pid, "guard_ticks": processes.start_ticks(pid)}
    return {"phase": phase, **identity, **more}


def test_without_anything_there_is_no_state(link: GuardLink) -> None:
    assert link.look() == ({}, False)
    assert link.fresh() is None
    assert link.descriptors() == []


def test_a_guard_that_listens_is_asked_and_not_its_files(place: HostRun, link: GuardLink) -> None:
    write_json(place.state, state("prepared"))
    orders = Orders()
    server = ControlServer(place.root, orders)
    server.publish(state("running", **{DISK_PROBLEM: "full"}))
    assert link.look() == (state("running", **{DISK_PROBLEM: "full"}), True)
    assert (link.fresh() or {})["phase"] == "running"
    assert link.fresh() is None
    link.again()
    assert (link.fresh() or {})["phase"] == "running"
    assert len(link.descriptors()) == 1
    link.order(STOP, {"reason": "x"})
    link.renew(1.0)
    assert orders.get(STOP) == {"reason": "x"}
    assert list(place.control.iterdir()) == []
    assert not place.lease.exists()
    write_json(place.state, state("ended"))
    server.close()
    assert (link.fresh() or {})["phase"] == "ended"
    assert link.fresh() is None


def test_the_same_state_is_not_sent_again_from_the_file(place: HostRun, link: GuardLink) -> None:
    server = ControlServer(place.root, Orders())
    server.publish(state("ended", **{DISK_PROBLEM: ""}))
    write_json(place.state, state("ended"))
    assert link.fresh() is not None
    server.close()
    assert link.fresh() is None


def test_a_guard_of_an_earlier_version_is_reached_by_files(place: HostRun, link: GuardLink) -> None:
    write_json(place.state, state("running"))
    assert link.look() == (state("running"), True)
    link.order(STOP, {"reason": "x"})
    link.renew(4.5)
    assert place.ordered(STOP) == {"reason": "x"}
    assert place.lease_seen_s() == 4.5
    assert (link.fresh() or {})["phase"] == "running"
    assert link.fresh() is None
    write_json(place.state, state("ended"))
    assert (link.fresh() or {})["phase"] == "ended"


def test_states_of_an_earlier_boot_have_no_guard(place: HostRun) -> None:
    write_json(place.state, {**state("running"), "boot": "another"})
    assert guard_link.look(place) == ({**state("running"), "boot": "another"}, False)
