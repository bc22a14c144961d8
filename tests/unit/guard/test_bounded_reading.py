"""Readings in processes of their own: one that hangs, dies or talks nonsense costs itself only."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import leases
from ddp_play.guard.bounded_reading import NotReadableHere, read_all
from tests.unit.guard.free_ports import free_range
from tests.waiting import wait_until


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_line() -> None:
    raise ValueError("half a line")


def not_here() -> None:
    raise NotReadableHere("no such thing on this host")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: {"a": 1}, {"value": {"a": 1}}),
        (lambda: None, {"value": None}),
        (half_a_line, {"problem": "ValueError: half a line"}),
        (not_here, {"problem": "no such thing on this host", "not_here": True}),
        (die, {"problem": "the process that read it was killed"}),
        (lambda: "x" * (600 << 10), {"problem": "an answer of more than 512 KiB"}),
        (lambda: os.write(1, b"noise"), {"value": 5}),
    ],
)
def test_each_way_to_end_is_an_answer(function: Any, expected: dict[str, Any]) -> None:
    found = read_all({"it": (function, 60.0)})["it"]
    del found["took_s"]
    assert found == expected


def test_one_that_hangs_ends_at_its_limit_with_what_it_started(tmp_path: Path) -> None:
    def hang() -> None:
        with subprocess.Popen(["sleep", "300"]) as process:
            (tmp_path / "pid").write_text(str(process.pid))

    def stopped() -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    began = time.monotonic()
    found = read_all({"hang": (hang, 5.0), "stopped": (stopped, 1.0), "good": (lambda: 1, 60.0)})
    assert found["hang"]["problem"] == "no answer within 5 s"
    assert found["stopped"]["problem"] == "no answer within 1 s"
    assert found["good"]["value"] == 1
    assert time.monotonic() - began < 60
    stat = Path("/proc", (tmp_path / "pid").read_text(), "stat")

    def has_ended() -> bool:
        try:
            return stat.read_text().split()[2] in "ZX"
        except OSError:  # also ESRCH: it was reaped between open and read
            return True

    wait_until(has_ended, what="the end of what it started")


def test_one_that_hangs_keeps_neither_leases_nor_pipes_of_its_parent(tmp_path: Path) -> None:
    def hang() -> None:
        Path(tmp_path, "new").write_text(str(os.getpid()))
        Path(tmp_path, "new").rename(tmp_path / "pid")
        time.sleep(600)

    name = f"port-{free_range()}"
    lease, (near, far) = leases.hold(name), os.pipe()
    assert lease is not None
    found: dict[str, Any] = {}
    reading = threading.Thread(target=lambda: found.update(read_all({"hang": (hang, 300.0)})))
    reading.start()
    wait_until((tmp_path / "pid").exists, what="the reading")
    try:
        lease.close()
        os.close(far)
        ready, _, _ = select.select([near], [], [], 60.0)
        assert ready, "the pipe is still open"
        assert os.read(near, 1) == b""
        again = leases.hold(name)
        assert again is not None
        again.close()
        assert reading.is_alive()
    finally:
        os.close(near)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        reading.join()
    assert found["hang"]["problem"] == "the process that read it was killed"


def test_a_host_that_starts_no_more_processes_says_so_of_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    found = read_all({"a": (lambda: 1, 1.0)})
    assert found["a"]["problem"] == "no process could be started: Resource temporarily unavailable"


def test_nothing_to_read() -> None:
    assert read_all({}) == {}


def test_readings_that_nobody_waits_for_are_ended() -> None:
    began = time.monotonic()
    found = read_all({"hang": (lambda: time.sleep(60), 60.0)}, lambda: time.monotonic() > began + 0.3)
    assert time.monotonic() - began < 10
    assert found["hang"]["problem"] == "no answer within 60 s"
    assert read_all({"a": (lambda: 1, 60.0)}, lambda: False)["a"]["value"] == 1
