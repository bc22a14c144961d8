"""Counters of GPUs and RDMA ports in a thread of their own: a sick device may not answer for minutes.

While it does not, samples have no devices in them. NVML is asked in the thread alone, from its start on.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable, Dict, List, Optional

from .host_counters import GPU_DRIVER, INFINIBAND, OpenFiles
from .nvml import Nvml, NvmlError

PATIENCE_S = 0.5  # for a reading; the start of NVML takes longer, and samples go on without it
WORD_BYTES = 4  # unit of the data counters of RDMA ports
MAX_PORTS = 64


class DeviceReadings(threading.Thread):
    """Reads the devices when asked to."""

    def __init__(self, open_devices: Callable[[], "Devices"]) -> None:
        super().__init__(name="devices", daemon=True)
        self._open_devices = open_devices
        self._wanted, self._done = threading.Event(), threading.Event()
        self._done.set()
        self._newest: Dict[str, Any] = {}
        self.described: Dict[str, Dict[str, Any]] = {}  # GPUs, once they are known

    def run(self) -> None:
        """Read whenever `newest` asks."""
        devices = self._open_devices()
        self.described = devices.described
        while True:
            self._wanted.wait()
            self._wanted.clear()
            self._newest = devices.read()
            self._done.set()

    def newest(self, patience_s: float = PATIENCE_S) -> Dict[str, Any]:
        """`gpus` and `rdma`, read now; nothing if that takes longer, or an earlier reading has not ended."""
        if not self._done.is_set():
            return {}
        self._done.clear()
        self._wanted.set()
        return self._newest if self._done.wait(patience_s) else {}


class Devices:
    """GPUs and RDMA ports of this host."""

    def __init__(self, root: str = "", library: Optional[str] = None) -> None:
        """`root`: directory in place of / for tests; `library`: the one of NVML."""
        self._files = OpenFiles(root)
        self._ports = rdma_ports(root)
        self._nvml: Optional[Nvml] = None
        with contextlib.suppress(OSError, NvmlError):
            if library is not None or os.path.exists(GPU_DRIVER):
                self._nvml = Nvml(library) if library is not None else Nvml()
        self.described = self._nvml.describe() if self._nvml is not None else {}

    def read(self) -> Dict[str, Any]:
        """`gpus` as `Nvml.read`; `rdma`: by DEVICE/PORT the bytes received and sent. Without devices neither."""
        found: Dict[str, Any] = {}
        if self._nvml is not None:
            found["gpus"] = self._nvml.read()
        ports = {}
        for port in self._ports:
            with contextlib.suppress(OSError, ValueError):
                ports[port] = (self._bytes(port, "port_rcv_data"), self._bytes(port, "port_xmit_data"))
        return {**found, "rdma": ports} if ports else found

    def _bytes(self, port: str, counter: str) -> int:
        device, _, number = port.partition("/")
        path = "%s/%s/ports/%s/counters/%s" % (INFINIBAND, device, number, counter)
        return WORD_BYTES * int(self._files.read(path))


def rdma_ports(root: str = "") -> List[str]:
    """Every RDMA port of the host, as DEVICE/PORT."""
    found: List[str] = []
    with contextlib.suppress(OSError):
        for device in sorted(os.listdir(root + INFINIBAND)):
            with contextlib.suppress(OSError):
                found += [
                    "%s/%s" % (device, port)
                    for port in sorted(os.listdir("%s/%s/%s/ports" % (root, INFINIBAND, device)))
                ]
    return found[:MAX_PORTS]
