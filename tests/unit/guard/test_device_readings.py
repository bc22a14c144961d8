"""Readings of devices in a thread: those that hang cost themselves only."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ddp_play.guard.device_readings import DeviceReadings, Devices
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


class Slow:
    """Devices whose readings end when the test says so."""

    described: dict[str, dict[str, Any]] = {"0": {"name": "X"}}  # noqa: RUF012 - never changed

    def __init__(self) -> None:
        self.release = threading.Event()
        self.num_read = 0

    def read(self) -> dict[str, Any]:
        self.num_read += 1
        assert self.release.wait(30)
        return {"gpus": {"0": {"utilization": self.num_read}}}


def started(devices: Any) -> DeviceReadings:
    found = DeviceReadings(cast("Callable[[], Devices]", lambda: devices))
    found.start()
    return found


def test_a_reading_that_hangs_is_no_reading_and_is_not_asked_again() -> None:
    slow = Slow()
    readings = started(slow)
    assert readings.newest(0.05) == {}
    assert readings.newest(10) == {}, "at once: the first still hangs"
    wait_until(lambda: slow.num_read == 1, timeout_s=10, what="the thread of the readings begins")
    slow.release.set()
    wait_until(lambda: readings.newest(10) != {}, timeout_s=10, what="a reading")
    assert readings.newest(10) == {"gpus": {"0": {"utilization": 3}}}
    assert readings.described == Slow.described


def test_rdma_ports_count_words_of_four_bytes(tmp_path: Path) -> None:
    counters = tmp_path / "sys/class/infiniband/mlx5_0/ports/1/counters"
    counters.mkdir(parents=True)
    (counters / "port_rcv_data").write_text("100\n")
    (counters / "port_xmit_data").write_text("25\n")
    (tmp_path / "sys/class/infiniband/mlx5_1/ports/1").mkdir(parents=True)  # tells nothing
    assert Devices(str(tmp_path), "libnothing.so").read() == {"rdma": {"mlx5_0/1": (400, 100)}}


def test_no_devices(tmp_path: Path) -> None:
    assert Devices(str(tmp_path), "libnothing.so").read() == {}
