"""Orders and lease of a guard, from memory and from the files of an earlier version."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import processes
from ddp_play.guard.orders import GO, STOP, Orders
from ddp_play.guard.run_directory import FROZEN, HostRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "1.h1")
    made.control.mkdir(parents=True)
    return made


def test_an_order_is_there_until_another_replaces_it() -> None:
    orders = Orders()
    assert orders.get(STOP) is None
    orders.give(STOP, {"reason": "a"})
    orders.give(STOP, {"reason": "b"})
    assert orders.get(STOP) == {"reason": "b"}
    assert orders.changed.is_set()


def test_files_are_orders_too(place: HostRun) -> None:
    orders = Orders()
    orders.read_files(place)
    assert not orders.changed.is_set()
    place.order(GO)
    place.order(FROZEN)
    orders.read_files(place)
    assert orders.get(GO) == {}
    orders.take_back(FROZEN, place)
    orders.read_files(place)
    assert orders.get(FROZEN) is None


def test_the_newest_time_counts_and_none_is_in_the_future(place: HostRun) -> None:
    orders = Orders()
    orders.renew(processes.uptime_s() + 1000)
    gone_s = orders.controller_gone_s()
    assert 0 <= gone_s < 5
    orders.renew(1.0)
    assert orders.controller_gone_s() < 5
    orders._seen_s = 0.0
    seen_s = processes.uptime_s()
    place.renew_lease(seen_s)
    orders.read_files(place)
    assert orders._seen_s == pytest.approx(seen_s, abs=0.01)
    orders._seen_s = 0.0
    orders.read_files(place)
    assert orders._seen_s == 0.0, "the same file is no news"


def test_an_order_from_the_socket_needs_no_file(place: HostRun) -> None:
    """A guard looks for files too, for channels of an earlier version."""
    orders = Orders()
    orders.give(STOP, {"reason": "a"})
    orders.changed.clear()
    orders.read_files(place)
    assert orders.get(STOP) == {"reason": "a"}
    assert not orders.changed.is_set()
    place.order(STOP, {"reason": "b"})
    orders.read_files(place)
    assert (orders.get(STOP), orders.changed.is_set()) == ({"reason": "b"}, True)
    orders.changed.clear()
    orders.read_files(place)
    assert not orders.changed.is_set(), "the same order is given once"
    orders.take_back(STOP, place)
    assert (orders.get(STOP), place.ordered(STOP)) == (None, None)


def test_the_lease_grows_with_every_second_without_news(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(processes, "uptime_s", lambda: now[0])
    orders = Orders()
    assert orders.controller_gone_s() == 0.0, "it begins with the guard"
    now[0] = 130.0
    assert orders.controller_gone_s() == 30.0
    orders.renew(110.0)
    assert orders.controller_gone_s() == 20.0
    orders.renew(105.0)
    assert orders.controller_gone_s() == 20.0, "an older time is no news"
    orders.renew(500.0)
    assert orders.controller_gone_s() == 0.0
