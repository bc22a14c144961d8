"""GPUs of this host through NVML, the library of the NVIDIA driver, by ctypes.

Names, structures and constants: https://docs.nvidia.com/deploy/nvml-api/ .
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Tuple

LIBRARY = "libnvidia-ml.so.1"
MAX_GPUS = 64
NAME_BYTES = 96
TEMPERATURE_GPU, CLOCK_SM = 0, 1


class NvmlError(Exception):
    """NVML cannot be used, with the number of its error."""


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _MemoryV2(ctypes.Structure):
    """`used` without what the driver keeps for itself, as nvidia-smi shows it; since driver 510."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


MEMORY_V2 = ctypes.sizeof(_MemoryV2) | 2 << 24


class Nvml:
    """All GPUs that the driver lists, by their number."""

    def __init__(self, library: str = LIBRARY) -> None:
        """Raises OSError without the library, NvmlError if it does not work."""
        self._library = ctypes.CDLL(library)
        self._must("nvmlInit_v2")
        count = ctypes.c_uint()
        self._must("nvmlDeviceGetCount_v2", ctypes.byref(count))
        self._devices: Dict[str, ctypes.c_void_p] = {}
        for number in range(min(count.value, MAX_GPUS)):
            handle = ctypes.c_void_p()
            if self._ask("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(number), ctypes.byref(handle)):
                self._devices[str(number)] = handle

    def _ask(self, name: str, *arguments: Any) -> bool:
        """Whether a function of the library succeeds; an earlier driver may lack it."""
        function = getattr(self._library, name, None)
        return function is not None and function(*arguments) == 0

    def _must(self, name: str, *arguments: Any) -> None:
        if not self._ask(name, *arguments):
            raise NvmlError("%s failed" % name)

    def describe(self) -> Dict[str, Dict[str, Any]]:
        """By GPU what does not change: `name`, `memory_total` in bytes, `power_limit` in watts."""
        found = {}
        for number, device in self._devices.items():
            row: Dict[str, Any] = {}
            name = ctypes.create_string_buffer(NAME_BYTES)
            if self._ask("nvmlDeviceGetName", device, name, ctypes.c_uint(NAME_BYTES)):
                row["name"] = name.value.decode("ascii", "replace")
            memory = self._memory(device)
            if memory is not None:
                row["memory_total"] = memory.total
            limit = ctypes.c_uint()
            if self._ask("nvmlDeviceGetEnforcedPowerLimit", device, ctypes.byref(limit)):
                row["power_limit"] = limit.value / 1000
            found[number] = row
        return found

    def _memory(self, device: ctypes.c_void_p) -> "_Memory | _MemoryV2 | None":
        newer, older = _MemoryV2(version=MEMORY_V2), _Memory()
        if self._ask("nvmlDeviceGetMemoryInfo_v2", device, ctypes.byref(newer)):
            return newer
        return older if self._ask("nvmlDeviceGetMemoryInfo", device, ctypes.byref(older)) else None

    def read(self) -> Dict[str, Dict[str, float]]:
        """By GPU: `utilization` in percent, `memory` in bytes, `power` in watts, `temperature`, `sm_clock` in MHz.

        What the GPU does not tell is left out, such as the utilization of one that is divided (MIG).
        """
        return {number: self._reading(device) for number, device in self._devices.items()}

    def _reading(self, device: ctypes.c_void_p) -> Dict[str, float]:
        row: Dict[str, float] = {}
        used, memory = _Utilization(), self._memory(device)
        if self._ask("nvmlDeviceGetUtilizationRates", device, ctypes.byref(used)):
            row["utilization"] = used.gpu
        if memory is not None:
            row["memory"] = memory.used
        questions: List[Tuple[str, str, List[Any], Callable[[int], float]]] = [
            ("power", "nvmlDeviceGetPowerUsage", [], lambda milliwatts: milliwatts / 1000),
            ("temperature", "nvmlDeviceGetTemperature", [ctypes.c_uint(TEMPERATURE_GPU)], float),
            ("sm_clock", "nvmlDeviceGetClockInfo", [ctypes.c_uint(CLOCK_SM)], float),
        ]
        for name, function, more, convert in questions:
            value = ctypes.c_uint()
            if self._ask(function, device, *more, ctypes.byref(value)):
                row[name] = convert(value.value)
        return row
