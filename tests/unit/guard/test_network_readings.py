"""NICs, routes and listeners from files of the kernel, below another root."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ddp_play.guard import network_readings as module

HEADER = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"


def test_nics_without_loopback(tmp_path: Path) -> None:
    for name, kind in (("eth0", "1"), ("lo", "772")):
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        for file, content in {"type": kind, "operstate": "up", "carrier": "1", "duplex": "full"}.items():
            (folder / file).write_text(content + "\n")
    found = {"state": "up", "carrier": "1", "duplex": "full", "carrier_losses": 0, "hardware": False,
             "firmware": ""}  # fmt: skip
    assert module.nics(str(tmp_path)) == {"eth0": found}


def test_default_routes_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "proc/net").mkdir(parents=True)
    rows = ["eth0\t00000000\tFE00000A\t0003\t0\t0\t100\t00000000", "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF"]
    (tmp_path / "proc/net/route").write_text(HEADER + "\n".join(rows) + "\n")
    assert module.default_routes(str(tmp_path)) == [{"interface": "eth0", "gateway": "10.0.0.254", "metric": 100}]
    assert module.default_routes(str(tmp_path / "none")) == []


def test_the_own_address_on_the_way_to_a_peer() -> None:
    assert module.source_addresses(["127.0.0.1"]) == {"127.0.0.1": "127.0.0.1"}


def test_who_listens_on_a_port_of_the_range() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        found = module.listeners(port, port)
        assert found[str(port)].startswith(f"process {os.getpid()} (")
        assert str(port) not in module.listeners(port + 1, port + 1)
