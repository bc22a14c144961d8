"""PCI devices in sysfs, and the kernel module flavour of each NVIDIA GPU generation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

if TYPE_CHECKING:
    from pathlib import Path

NVIDIA = 0x10DE
MELLANOX = 0x15B3
DISPLAY = 0x03  # base class: VGA, 3D, other display controller
INFINIBAND = 0x0207
NETWORK = 0x02
OTHER_BRIDGE = 0x0680
FIRST_NVSWITCH = 0x1AC0  # the nForce chipsets used the same class with ids below 0x1000


class Device(NamedTuple):
    """One PCI device: slot as sysfs names it (0000:3b:00.0), ids of vendor and device, class, NUMA node."""

    slot: str
    vendor: int
    device: int
    pci_class: int  # 24 bits: base class, subclass, interface
    numa_node: int


class Generation(NamedTuple):
    """A range of device ids, both ends included, and the kernel module flavour that its GPUs take."""

    name: str
    first: int
    last: int
    flavour: str  # open, proprietary, either, none


# Device ids: open-gpu-kernel-modules README (Turing and newer) and pci.ids (older).
# Flavours: driver installation guide, "Kernel modules".
GENERATIONS = (
    Generation("kepler or older", 0x0000, 0x133F, "none"),
    Generation("maxwell", 0x1340, 0x15EF, "proprietary"),
    Generation("pascal", 0x15F0, 0x15FF, "proprietary"),
    Generation("maxwell", 0x1600, 0x1AFF, "proprietary"),
    Generation("pascal", 0x1B00, 0x1D7F, "proprietary"),
    Generation("volta", 0x1D80, 0x1DFF, "proprietary"),
    Generation("turing", 0x1E00, 0x207F, "either"),
    Generation("ampere", 0x2080, 0x217F, "either"),
    Generation("turing", 0x2180, 0x21FF, "either"),
    Generation("ampere", 0x2200, 0x22FF, "either"),
    Generation("hopper", 0x2300, 0x233F, "either"),
    Generation("grace-hopper", 0x2340, 0x23FF, "open"),
    Generation("ampere", 0x2400, 0x267F, "either"),
    Generation("ada", 0x2680, 0x28FF, "either"),
    Generation("blackwell or newer", 0x2900, 0xFFFF, "open"),
)


def generation(device_id: int) -> Generation:
    """The generation that a device id belongs to. StopIteration for ids of more than 16 bits."""
    return next(g for g in GENERATIONS if g.first <= device_id <= g.last)


def flavours(device_ids: List[int]) -> List[str]:
    """The kernel module flavours that all these GPUs support, preferred first; empty if there is none."""
    possible = {"open", "proprietary"}
    for device_id in device_ids:
        wanted = generation(device_id).flavour
        possible &= {"open", "proprietary"} if wanted == "either" else {wanted}
    return sorted(possible)


def _number(path: Path, base: int) -> Optional[int]:
    try:
        return int(path.read_text(encoding="ascii").strip(), base)
    except (OSError, ValueError):
        return None


def devices(sysfs: Path) -> List[Device]:
    """All PCI devices below a sysfs, by slot, except those with unreadable ids."""
    found = []
    for folder in sorted((sysfs / "bus/pci/devices").glob("*")):
        vendor = _number(folder / "vendor", 16)
        device = _number(folder / "device", 16)
        pci_class = _number(folder / "class", 16)
        if vendor is None or device is None or pci_class is None:
            continue
        node = _number(folder / "numa_node", 10)
        found.append(Device(folder.name, vendor, device, pci_class, -1 if node is None else node))
    return found


def is_gpu(device: Device) -> bool:
    """Whether the device is an NVIDIA display controller."""
    return device.vendor == NVIDIA and device.pci_class >> 16 == DISPLAY


def is_nvswitch(device: Device) -> bool:
    """Whether the device is an NVSwitch, by vendor, class and device id."""
    bridge = device.pci_class >> 8 == OTHER_BRIDGE
    return device.vendor == NVIDIA and bridge and device.device >= FIRST_NVSWITCH


def is_hca(device: Device) -> bool:
    """Whether the device is an HCA: class InfiniBand, or a network device of Mellanox (ConnectX on ethernet)."""
    if device.pci_class >> 8 == INFINIBAND:
        return True
    return device.vendor == MELLANOX and device.pci_class >> 16 == NETWORK


def describe_gpu(device: Device) -> Dict[str, Any]:
    """Slot, device id, generation and NUMA node (-1 if there is none) of a GPU, for the facts."""
    return {
        "slot": device.slot,
        "device_id": f"0x{device.device:04x}",
        "generation": generation(device.device).name,
        "numa_node": device.numa_node,
    }
