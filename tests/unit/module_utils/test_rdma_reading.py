"""RDMA facts from a sysfs of files."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import rdma_reading

PORT = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand", "rate": "200 Gb/sec (4X HDR)"}
IB0 = {"ifname": "ib0", "addr_info": [{"local": "10.1.0.2", "prefixlen": 16}]}


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n", encoding="ascii")
    return root


def test_devices_with_their_ports(tmp_path: Path) -> None:
    folder = "class/infiniband/mlx5_0"
    files = {f"{folder}/ports/1/{name}": text for name, text in PORT.items()}
    sysfs = write(tmp_path, {**files, f"{folder}/fw_ver": "20.31.1014"})
    (device,) = rdma_reading.devices(sysfs)
    assert (device["name"], device["firmware"]) == ("mlx5_0", "20.31.1014")
    assert (device["ports"]["1"]["state"], device["ports"]["1"]["rate_gbps"]) == ("ACTIVE", 200.0)


def test_a_host_without_rdma_has_no_devices(tmp_path: Path) -> None:
    assert rdma_reading.devices(tmp_path) == []


@pytest.mark.parametrize(("control", "found"), [(0x001D, ["0000:00:01.0"]), (0x001C, []), (None, [])])
def test_bridges_that_validate_sources(tmp_path: Path, control: int | None, found: list[str]) -> None:
    folder = tmp_path / "bus/pci/devices/0000:00:01.0"
    folder.mkdir(parents=True)
    capability = b"" if control is None else struct.pack("<IHH", 0x000D, 0, control)
    (folder / "config").write_bytes(bytes(0x100) + capability + bytes(8))
    assert rdma_reading.acs_bridges(tmp_path) == found


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (
            (0, json.dumps([IB0, {"ifname": "ib1"}]), ""),
            {"ib0": ["10.1.0.2/16"], "ib1": []},
        ),
        ((127, "", "ip: not found"), {}),
        ((0, "", ""), {}),
    ],
    ids=["two interfaces", "no ip program", "no answer"],
)
def test_addresses(monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str, str], found: dict[str, Any]) -> None:
    monkeypatch.setattr(rdma_reading, "run", lambda _argv: answer)
    assert rdma_reading.addresses() == found


def test_facts_of_a_host_without_rdma(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rdma_reading, "run", lambda _argv: (127, "", ""))
    found = rdma_reading.gather({"sysfs": str(tmp_path), "procfs": str(tmp_path), "users": False})
    empty: dict[str, Any] = {"hcas": [], "devices": [], "addresses": {}, "acs_bridges": []}
    assert found == {"num_pci_devices": 0, "virtual": False, **empty}


def test_processes_with_an_open_device_are_its_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rdma_reading, "run", lambda _argv: (127, "", ""))
    for pid, name, target in ((7, "mpirun", "uverbs0"), (8, "ibacm", "uverbs0"), (9, "opensm", "umad0")):
        write(tmp_path, {f"{pid}/comm": name})
        (tmp_path / f"{pid}/fd").mkdir()
        (tmp_path / f"{pid}/fd/5").symlink_to(f"/dev/infiniband/{target}")
    found = rdma_reading.gather({"sysfs": str(tmp_path), "procfs": str(tmp_path), "users": True})
    assert found["users"] == [{"pid": 7, "name": "mpirun"}]
