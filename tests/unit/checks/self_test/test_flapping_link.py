"""The link that goes down and up only while data flow; it runs in tests/lab/test_pair_matrix_defects.py."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.self_test import flapping_link as module

if TYPE_CHECKING:
    from pathlib import Path


def test_all_bytes_of_the_link_count(tmp_path: Path) -> None:
    counters = tmp_path / "sys/class/net/eth0/statistics"
    counters.mkdir(parents=True)
    (counters / "tx_bytes").write_text("5\n")
    (counters / "rx_bytes").write_text("7\n")
    assert module.sent(str(tmp_path)) == 12


@pytest.mark.parametrize(("now", "num_flaps"), [(1000, 0), (400_000, 0), (5_000_000, 1)])
def test_logins_and_readings_have_the_link_as_usual(monkeypatch: pytest.MonkeyPatch, now: int, num_flaps: int) -> None:
    flaps: list[tuple[list[str], Any]] = []
    monkeypatch.setattr(time, "sleep", lambda _s: None)
    monkeypatch.setattr(module, "sent", lambda: now)
    monkeypatch.setattr(subprocess, "run", lambda words, **more: flaps.append((words, more["input"])))
    assert module.step(0, "10.0.0.1") == now
    batch = b"link set eth0 down\nlink set eth0 up\nroute replace default via 10.0.0.1\n"
    assert flaps == [(["ip", "-batch", "-"], batch)] * num_flaps
