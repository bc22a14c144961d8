"""A small sysfs and procfs that show GPUs, NVSwitches, HCAs, a loaded driver, secure boot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SECURE_BOOT = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# As in the driver's README; "Open" is there with the open modules only.
NVRM = "NVRM version: NVIDIA UNIX {flavour}Kernel Module for x86_64  {version}  Release Build  (dvs-builder)\n"


@dataclass(frozen=True)
class Hardware:
    gpus: tuple[int, ...] = (0x2330, 0x2330)
    num_nvswitches: int = 0
    hcas: tuple[str, ...] = ()  # names of InfiniBand devices, each with one active port
    loaded: str = ""
    loaded_open: bool = True
    nouveau: bool = False
    secure_boot: bool | None = None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _pci(root: Path, slot: str, vendor: int, device: int, pci_class: int) -> None:
    folder = root / "bus/pci/devices" / slot
    _write(folder / "vendor", f"0x{vendor:04x}\n")
    _write(folder / "device", f"0x{device:04x}\n")
    _write(folder / "class", f"0x{pci_class:06x}\n")
    _write(folder / "numa_node", "0\n")


def _hca(root: Path, name: str) -> None:
    device = root / "class/infiniband" / name
    _write(device / "node_guid", "a088:c203:00e3:1f2a\n")
    _write(device / "fw_ver", "28.43.1014\n")
    port = device / "ports/1"
    for key, value in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "InfiniBand",
        "rate": "400 Gb/sec (4X NDR)",
        "lid": "0x12",
    }.items():
        _write(port / key, value + "\n")


def write(root: Path, hardware: Hardware) -> None:
    """Fill root/sys and root/proc."""
    sysfs, procfs = root / "sys", root / "proc"
    _pci(sysfs, "0000:00:00.0", 0x8086, 0x0A04, 0x060000)
    for index, device in enumerate(hardware.gpus):
        _pci(sysfs, f"0000:{0x10 + index:02x}:00.0", 0x10DE, device, 0x030200)
        _pci(sysfs, f"0000:{0x10 + index:02x}:00.1", 0x10DE, 0x22BA, 0x040300)  # its audio function
    for index in range(hardware.num_nvswitches):
        _pci(sysfs, f"0000:{0x80 + index:02x}:00.0", 0x10DE, 0x22A3, 0x068000)
    for index, name in enumerate(hardware.hcas):
        _pci(sysfs, f"0000:{0xA0 + index:02x}:00.0", 0x15B3, 0x1021, 0x020700)
        _hca(sysfs, name)
    if hardware.loaded:
        _write(sysfs / "module/nvidia/version", hardware.loaded + "\n")
        flavour = "Open " if hardware.loaded_open else ""
        _write(procfs / "driver/nvidia/version", NVRM.format(flavour=flavour, version=hardware.loaded))
    if hardware.nouveau:
        _write(sysfs / "module/nouveau/refcnt", "1\n")
    if hardware.secure_boot is not None:
        path = sysfs / SECURE_BOOT
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x06\x00\x00\x00" + bytes([hardware.secure_boot]))
    procfs.mkdir(parents=True, exist_ok=True)


def variables(root: object) -> dict[str, str]:
    """Variables by which the roles read this hardware; the path may be a template."""
    roles = ("rdma", "nvidia_driver", "nccl", "nvidia_container_toolkit")
    return {f"__{role}_sysfs": f"{root}/sys" for role in roles} | {"__nvidia_driver_procfs": f"{root}/proc"}
