"""Handlers of signals around a playbook: what it leaves behind does not stay."""

from __future__ import annotations

import signal

from ddp_play.ansible.own_signals import own_signal_handlers

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def test_the_handlers_are_those_of_before() -> None:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    with own_signal_handlers():
        for number in NUMBERS:
            signal.signal(number, lambda *_: None)
    assert {number: signal.getsignal(number) for number in NUMBERS} == before


def test_a_hangup_is_a_termination_unless_it_is_ignored() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with own_signal_handlers():
            signal.raise_signal(signal.SIGHUP)
        assert seen == [signal.SIGTERM]
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with own_signal_handlers():
            signal.raise_signal(signal.SIGHUP)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, hangup)
