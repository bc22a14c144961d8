"""Wait for the ends of real processes."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.process_ends import ProcessEnds

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends(no_descriptor_left: None) -> Iterator[ProcessEnds]:
    made = ProcessEnds()
    yield made
    made.close()


def waited_s(ends: ProcessEnds, pids: list[int], *, rest_s: float, watch_s: float = 0.0) -> float:
    began = time.monotonic()
    ends.wait(pids, rest_s, watch_s)
    return time.monotonic() - began


def test_an_end_is_noticed_at_once(ends: ProcessEnds) -> None:
    with subprocess.Popen(["sleep", "60"]) as stays, subprocess.Popen(["sleep", "0.2"]) as goes:
        assert waited_s(ends, [stays.pid, goes.pid], rest_s=60.0) < 30
        assert goes.wait(10) == 0
        stays.kill()


def test_the_end_of_a_process_that_is_no_child_is_noticed(ends: ProcessEnds) -> None:
    """As of a container's."""
    with subprocess.Popen(["sh", "-c", "sleep 0.3 & echo $!; exec sleep 60"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert waited_s(ends, [int(parent.stdout.readline())], rest_s=60.0) < 30
        parent.kill()


def test_without_an_end_it_returns_in_time(ends: ProcessEnds) -> None:
    with subprocess.Popen(["sleep", "60"]) as stays:
        assert waited_s(ends, [stays.pid], rest_s=0.2, watch_s=60.0) >= 0.2
        stays.kill()


def test_a_process_that_ended_is_watched_until_it_is_recorded(ends: ProcessEnds) -> None:
    """The engine may need time to tell how it ended: no loop without a pause."""
    with subprocess.Popen(["sleep", "60"]) as stays, subprocess.Popen(["true"]) as goes:
        ends.wait([stays.pid, goes.pid], 60.0, 0.0)
        for _ in range(2):
            assert 0.1 <= waited_s(ends, [stays.pid, goes.pid], rest_s=60.0, watch_s=0.1) < 30
        assert waited_s(ends, [stays.pid], rest_s=0.1, watch_s=60.0) >= 0.1, "recorded: not wanted any more"
        stays.kill()


def test_without_pidfds_it_looks_as_often_as_before(ends: ProcessEnds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert 0.1 <= waited_s(ends, [os.getpid()], rest_s=60.0, watch_s=0.1) < 30


def test_a_process_that_is_gone_already_is_looked_at(ends: ProcessEnds) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    assert 0.1 <= waited_s(ends, [gone.pid], rest_s=60.0, watch_s=0.1) < 30
