"""A flag that a signal handler may set."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from ddp_play.guard.wakeup import Wakeup


def test_it_stays_set_until_it_is_cleared() -> None:
    flag = Wakeup()
    assert not flag.is_set()
    flag.set()
    flag.set()
    assert (flag.is_set(), flag.wait(60.0)) == (True, True)
    flag.clear()
    assert not flag.is_set()
    assert not flag.wait(0.01)


def test_it_can_be_set_any_number_of_times() -> None:
    flag = Wakeup()
    for _ in range(100_000):  # more than a pipe holds
        flag.set()
    flag.clear()
    assert not flag.is_set()


def test_whoever_waits_is_woken_by_a_signal_handler() -> None:
    flag = Wakeup()
    woken: list[float] = []
    waiter = threading.Thread(target=lambda: woken.append(time.monotonic()) if flag.wait(60.0) else None)
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: flag.set())
    waiter.start()
    os.kill(os.getpid(), signal.SIGUSR1)
    waiter.join(30)
    signal.signal(signal.SIGUSR1, before)
    assert len(woken) == 1


@pytest.mark.usefixtures("no_descriptor_left")
def test_its_descriptors_are_closed_with_it() -> None:
    flag = Wakeup()
    del flag
