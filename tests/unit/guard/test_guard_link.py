"""The state and the orders of an attempt with a guard that listens, one that has ended, and one that uses files."""

from __future__ import annotations

import json
import os
import socket
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import guard_link, processes
from ddp_play.guard.control_socket import ControlServer, address
from ddp_play.guard.guard_link import DISK_PROBLEM, GuardLink
from ddp_play.guard.orders import STOP, Orders
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard.hostile import needs_root

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


def test_a_guard_that_ends_while_it_gets_an_order_is_no_error(place: HostRun, link: GuardLink) -> None:
    """Its last state is there, and says what became of its ranks."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address(place.root))
        listener.listen(1)

        def end_at_the_order() -> None:
            guard, _ = listener.accept()
            with guard:
                guard.sendall(json.dumps({"t": "state", "state": state("running")}).encode() + b"\n")
                while b'"order"' not in guard.recv(65536):
                    pass
                write_json(place.state, state("ended"))

        ending = threading.Thread(target=end_at_the_order)
        ending.start()
        assert link.look() == (state("running"), True)
        link.order(STOP, {"reason": "enough"})
        ending.join()
    assert place.ordered(STOP) == {"reason": "enough"}
    assert link.look()[0]["phase"] == "ended"


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


@pytest.mark.parametrize(
    ("changed", "same", "alive"),
    [
        ({}, True, True),
        ({"boot": ""}, False, False),
        ({"boot": "another"}, False, False),
        ({"guard_pid": None}, True, False),
        ({"guard_ticks": None}, True, False),
        ({"guard_ticks": 1}, True, False),
    ],
)
def test_only_the_process_that_wrote_the_state_is_its_guard(changed: dict[str, Any], same: bool, alive: bool) -> None:
    """After a reboot, or when its pid has another process, a state without a guard is a lost host."""
    told = {**state("running"), **changed}
    assert guard_link.same_boot(told) is same
    assert guard_link.guard_alive(told) is alive


def test_no_state_is_of_no_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "boot_id", lambda: "")
    assert not guard_link.same_boot({})
    assert not guard_link.same_boot({"boot": ""})


def test_the_last_state_of_a_guard_that_ends_meanwhile_is_read(
    place: HostRun, link: GuardLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes its file and ends between our look at the file and our look at the process."""
    write_json(place.state, state("running"))

    def ends(_pid: int, _ticks: int) -> bool:
        write_json(place.state, state("ended"))
        return False

    monkeypatch.setattr(processes, "alive", ends)
    assert link.look() == (state("ended"), False)


def test_a_guard_is_not_looked_for_all_the_time(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fresh` is called many times a second; `look` and orders cannot wait."""
    monkeypatch.setattr(guard_link, "RECONNECT_S", 60.0)
    made = GuardLink(place)
    assert made.fresh() is None
    server = ControlServer(place.root, Orders())
    server.publish(state("running"))
    assert made.fresh() is None, "a moment ago there was no guard"
    assert made.descriptors() == []
    assert made.look() == (state("running"), True)
    assert (made.fresh() or {})["phase"] == "running"
    made.close()
    assert made.descriptors() == []
    server.close()


def test_a_guard_is_looked_for_at_the_first_question(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard_link, "RECONNECT_S", 60.0)
    server = ControlServer(place.root, Orders())
    server.publish(state("running"))
    made = GuardLink(place)
    assert (made.fresh() or {})["phase"] == "running"
    made.close()
    server.close()


def test_a_guard_that_listens_gets_the_lease_and_its_directory_none(place: HostRun, link: GuardLink) -> None:
    beats: list[float] = []
    link._client = SimpleNamespace(is_open=True, beat=beats.append, close=lambda: None)  # type: ignore[assignment]
    link.renew(4.5)
    assert beats == [4.5]
    assert not place.lease.exists()


@pytest.mark.parametrize(
    ("lease_s", "passed_on"),
    [(0.0, [10.0, 12.0, 14.0]), (60.0, [10.0, 12.0, 14.0]), (5.0, [10.0, 11.0, 12.0, 13.0, 14.0])],
)
def test_every_second_heartbeat_wakes_the_guard_unless_its_lease_is_short(
    place: HostRun, link: GuardLink, lease_s: float, passed_on: list[float]
) -> None:
    write_json(place.spec, {"limits": {"lease_s": lease_s}})
    beats: list[float] = []
    link._client = SimpleNamespace(is_open=True, beat=beats.append, close=lambda: None)  # type: ignore[assignment]
    for seen_s in (10.0, 11.0, 12.0, 13.0, 14.0):
        link.renew(seen_s)
    assert beats == passed_on


def test_a_lease_that_is_known_only_later_is_kept(place: HostRun, link: GuardLink) -> None:
    """Heartbeats come before the spec does, while a run waits for its turn."""
    beats: list[float] = []
    link._client = SimpleNamespace(is_open=True, beat=beats.append, close=lambda: None)  # type: ignore[assignment]
    link.renew(10.0)
    write_json(place.spec, {"limits": {"lease_s": 5.0}})
    for seen_s in (11.0, 12.0, 13.0):
        link.renew(seen_s)
    assert beats == [10.0, 11.0, 12.0, 13.0]


def test_a_heartbeat_that_could_not_be_stored_is_followed_by_the_next(place: HostRun, link: GuardLink) -> None:
    place.lease.mkdir()
    link.renew(10.0)
    place.lease.rmdir()
    link.renew(11.0)
    assert place.lease_seen_s() == 11.0


@pytest.mark.parametrize(("first", "calls"), [({"phase": "running"}, ["hello"]), (None, ["close"])])
def test_only_a_guard_that_tells_its_state_is_greeted(
    link: GuardLink, monkeypatch: pytest.MonkeyPatch, first: dict[str, Any] | None, calls: list[str]
) -> None:
    called: list[str] = []
    client: Any = SimpleNamespace(
        is_open=True,
        first_state=lambda _timeout_s: first,
        hello=lambda: called.append("hello"),
        close=lambda: called.append("close"),
    )
    monkeypatch.setattr(guard_link, "ControlClient", lambda *_: client)
    assert (link._connected() is client) is (first is not None)
    assert called == calls


def test_a_look_leaves_no_connection(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[GuardLink] = []
    monkeypatch.setattr(GuardLink, "close", lambda link: closed.append(link))  # noqa: PLW0108 - as a method
    assert guard_link.look(place) == ({}, False)
    assert [made.place for made in closed] == [place]


def test_a_directory_that_is_gone_gets_no_lease(place: HostRun, link: GuardLink) -> None:
    """Writing it would make a directory of a run that was cleaned up."""
    for path in (place.control, place.root):
        path.rmdir()
    link.renew(4.5)
    assert not place.root.exists()


def test_a_lease_that_cannot_be_stored_is_no_error(place: HostRun, link: GuardLink) -> None:
    place.lease.mkdir()
    link.renew(4.5)
    assert place.lease.is_dir()


@needs_root
def test_root_does_not_trust_a_guard_of_the_owner_of_the_directory(place: HostRun, link: GuardLink) -> None:
    """What a guard tells decides which processes root signals; every run of root is in a directory of root."""
    os.chown(place.root, 12345, 12345)
    os.seteuid(12345)  # of which the kernel makes the credentials of the socket that listens
    try:
        server = ControlServer(place.root, Orders())
    finally:
        os.seteuid(0)
    server.publish({"phase": "running", "guard_pid": 1})
    try:
        assert link.look() == ({}, False)
    finally:
        server.close()


def test_a_file_that_has_not_changed_is_not_read_again(
    place: HostRun, link: GuardLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(place.state, state("running"))
    assert link.fresh() is not None
    read: list[Any] = []
    monkeypatch.setattr(guard_link, "read_json", read.append)
    assert link.fresh() is None
    assert read == []
    link.again()
    assert link.fresh() is None
    assert read == [place.state]
