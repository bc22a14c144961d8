"""PCI devices from a fixture sysfs, and the flavour table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import pci

sys.path.insert(0, str(Path(__file__).parents[3]))
from tests.roles_gpu import fixture


@pytest.mark.parametrize(
    ("device_id", "generation"),
    [
        (0x0FFE, "kepler or older"),  # Quadro K2000
        (0x17C2, "maxwell"),  # Titan X
        (0x15F8, "pascal"),  # P100 PCIe
        (0x1B80, "pascal"),  # GTX 1080
        (0x1DB1, "volta"),  # V100 SXM2
        (0x1EB8, "turing"),  # T4
        (0x2182, "turing"),  # GTX 1660 Ti
        (0x20B2, "ampere"),  # A100 SXM4 80 GB
        (0x2236, "ampere"),  # A10
        (0x2330, "hopper"),  # H100 SXM5
        (0x2335, "hopper"),  # H200 SXM
        (0x2342, "grace-hopper"),
        (0x2684, "ada"),  # RTX 4090
        (0x2901, "blackwell or newer"),  # B200
        (0x3182, "blackwell or newer"),  # B300
    ],
)
def test_generation(device_id: int, generation: str) -> None:
    assert pci.generation(device_id).name == generation


def test_table_has_no_gap_and_no_overlap() -> None:
    for before, after in zip(pci.GENERATIONS, pci.GENERATIONS[1:], strict=False):
        assert after.first == before.last + 1


@pytest.mark.parametrize(
    ("device_ids", "flavours"),
    [
        ([], ["open", "proprietary"]),
        ([0x2330], ["open", "proprietary"]),
        ([0x2330, 0x2901], ["open"]),
        ([0x1DB1], ["proprietary"]),
        ([0x1DB1, 0x20B2], ["proprietary"]),
        ([0x1DB1, 0x2901], []),
        ([0x0FFE], []),
    ],
)
def test_flavours(device_ids: list[int], flavours: list[str]) -> None:
    assert pci.flavours(device_ids) == flavours


def test_devices_of_a_host_with_everything(tmp_path: Path) -> None:
    fixture.write(tmp_path, fixture.Hardware(gpus=(0x2330,) * 8, num_nvswitches=4, hcas=("mlx5_0",)))
    found = pci.devices(tmp_path / "sys")
    assert sum(map(pci.is_gpu, found)) == 8  # their audio functions are not GPUs
    assert sum(map(pci.is_nvswitch, found)) == 4
    assert [d.slot for d in found if pci.is_hca(d)] == ["0000:a0:00.0"]
    assert pci.describe_gpu(next(filter(pci.is_gpu, found))) == {
        "slot": "0000:10:00.0",
        "device_id": "0x2330",
        "generation": "hopper",
        "numa_node": 0,
    }


def test_no_sysfs_is_no_device(tmp_path: Path) -> None:
    assert pci.devices(tmp_path) == []


def test_an_nforce_bridge_is_no_nvswitch() -> None:
    assert not pci.is_nvswitch(pci.Device("0000:00:08.0", 0x10DE, 0x0373, 0x068000, -1))
