"""Counters from files below another root, and the firmware of interfaces of this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ddp_play.guard import nic_counters as module

if TYPE_CHECKING:
    from pathlib import Path


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_counters_that_are_not_zero(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/net/eth0/statistics/rx_crc_errors", "3\n")
    put(tmp_path, "sys/class/net/eth0/statistics/tx_errors", "0\n")
    put(tmp_path, "sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "7\n")
    put(tmp_path, "sys/class/infiniband/mlx5_0/ports/1/hw_counters/roce_slow_restart", "no number\n")
    put(tmp_path, "sys/class/infiniband/mlx5_1/ports/1/counters/symbol_error", "0\n")
    assert module.counters(str(tmp_path)) == {
        "eth0": {"rx_crc_errors": 3}, "mlx5_0 port 1": {"symbol_error": 7}, "mlx5_1 port 1": {},
    }  # fmt: skip
    assert module.counters(str(tmp_path / "none")) == {}


def test_an_interface_that_is_none_or_has_no_firmware_tells_none() -> None:
    assert module.firmware("lo") == ""
    assert module.firmware("no-such-interface-at-all") == ""
    assert all(isinstance(module.firmware(name), str) for name in sorted(os.listdir("/sys/class/net")))  # noqa: PTH208 - names, no paths


def test_texts_of_the_driver_end_at_the_first_zero() -> None:
    data = (
        b"\3\0\0\0"
        + b"mlx5_core".ljust(32, b"\0")
        + b"6.1".ljust(32, b"\0")
        + b"28.39.1002 (MT_0838)\0junk".ljust(32, b"\0")
    )
    assert module._text(data, 4) == "mlx5_core"
    assert module._text(data, 4 + 2 * module.TEXT) == "28.39.1002 (MT_0838)"
