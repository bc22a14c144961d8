"""NCCL: environment of its ranks except for the fabric, and the transport that its log reports. Pure."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.guard.protocol import FLIGHT_RECORDER, NCCL_NOTES

if TYPE_CHECKING:
    from collections.abc import Iterable

# Format of the log lines: init.cc, bootstrap.cc and transport/{p2p,shm,net,net_ib,net_socket}.cc of NVIDIA/nccl.
# Old name -> (new name, a version of torch that reads it, from where on only the new one is set).
RENAMED = {
    "TORCH_NCCL_DUMP_ON_TIMEOUT": ("TORCH_FR_DUMP_ON_TIMEOUT", (2, 15)),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": ("TORCH_FR_BUFFER_SIZE", (2, 8)),
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": ("TORCH_FR_DUMP_TEMP_FILE", (2, 13)),
}
_MAJOR_MINOR = re.compile(r"(\d+)\.(\d+)")
_VERSION = re.compile(r"NCCL version (\d[\w.+]*)")
_NETWORK = re.compile(r"NCCL INFO Using network (.+?)\s*$", re.MULTILINE)
_DEVICES = re.compile(r"NCCL INFO NET/(\S+) ?: Using (.+?)(?:; OOB .*)?$", re.MULTILINE)
_DEVICE = re.compile(r"\[\d+\](\S+?)(?:<\d+>)?(?=\s|$)")
_CHANNEL = re.compile(r"NCCL INFO Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\] (?:\[\w+\] )?via (\S+)")
_COMPLETE = re.compile(r"NCCL INFO .* nranks (\d+) .*Init COMPLETE")


@dataclass(frozen=True, slots=True)
class Transport:
    """How the ranks are connected; `channels` counts connections by transport: P2P/CUMEM, SHM/direct, NET/IB."""

    version: str
    network: str  # IB, Socket or a plugin's name; empty while NCCL has not chosen
    devices: tuple[str, ...]
    channels: dict[str, int]
    complete: bool
    is_alone: bool = False  # each communicator has one rank, so there is nothing to connect

    @property
    def gpu_direct(self) -> bool:
        """Do NICs access GPU memory directly (GPUDirect RDMA)?"""
        return any(way.endswith("/GDRDMA") for way in self.channels)

    def words(self) -> str:
        """`NCCL 2.30.7: network IB (mlx5_0:1/IB), P2P/CUMEM x8, NET/IB x4`."""
        ways = ", ".join(f"{way} x{count}" for way, count in sorted(self.channels.items()))
        devices = f" ({', '.join(self.devices)})" if self.devices else ""
        parts = [
            f"network {self.network or 'not chosen'}{devices}",
            ways or ("one rank" if self.is_alone else "no channels seen"),
        ]
        return f"NCCL {self.version or 'of unknown version'}: {', '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        known = {name: value for name, value in asdict(self).items() if name != "is_alone"}
        return {**known, "devices": list(self.devices), "gpu_direct": self.gpu_direct}


def environment(rank_dir: str, timeout_s: float, torch: str = "") -> list[tuple[str, str, str]]:
    """(name, value, source) of variables that make NCCL fail fast and record its operations.

    `torch`: its version. The flight recorder's variables have new names, and torch warns about an old one. Where the
    version is unknown, both are set: a warning is better than no dump. Sources: torch_nccl_environment_variables of the
    torch documentation, FlightRecorder.hpp of torch, user-guide/docs/env.rst of NVIDIA/nccl.
    """
    dump = f"{rank_dir}/{FLIGHT_RECORDER}"
    seconds = str(int(timeout_s))
    recorder = "default: last operations of each rank, for evidence"
    rows = [
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", "default: end the process on an error, after the recorder's dump"),
        *((name, "1", recorder) for name in _names("TORCH_NCCL_DUMP_ON_TIMEOUT", torch)),
        *((name, "2000", recorder) for name in _names("TORCH_NCCL_TRACE_BUFFER_SIZE", torch)),
        *((name, dump, recorder) for name in _names("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", torch)),
    ]
    if timeout_s:
        rows.append(("TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC", seconds, "job: ddp_job_timeout, for a watchdog that is stuck"))
    return rows


def _names(old: str, torch: str) -> tuple[str, ...]:
    """The names of a flight recorder variable that are set for this version of torch."""
    new, since = RENAMED[old]
    found = _MAJOR_MINOR.match(torch)
    return (new,) if found and (int(found[1]), int(found[2])) >= since else (old, new)


def notes_environment(rank_dir: str) -> list[tuple[str, str, str]]:
    """(name, value, source) of variables that make NCCL log its choice of transport to a separate file."""
    source = "default: the transport is read from it; NCCL_DEBUG in ddp_job_env overrides it"
    return [
        ("NCCL_DEBUG", "INFO", source),
        ("NCCL_DEBUG_SUBSYS", "INIT,NET", source),
        ("NCCL_DEBUG_FILE", f"{rank_dir}/{NCCL_NOTES}", source),
    ]


def parse_transport(texts: Iterable[str]) -> Transport | None:
    """Transport from the NCCL logs of one or more ranks together; None where they hold no line of NCCL."""
    version, networks, devices, channels, num_complete, num_texts = "", [], [], Counter[str](), 0, 0
    sizes: set[str] = set()
    for text in texts:
        num_texts += 1
        if match := _VERSION.search(text):
            version = version or match[1]
        networks += _NETWORK.findall(text)
        for kind, listed in _DEVICES.findall(text):
            if kind in ("IB", "Socket"):
                devices += _DEVICE.findall(listed)
        channels.update(_without_device_number(way) for way in _CHANNEL.findall(text))
        found = _COMPLETE.findall(text)
        num_complete += bool(found)
        sizes.update(found)
    if not (version or networks or devices or channels):
        return None
    # one rank on sockets makes the whole collective as slow as sockets
    network = "Socket" if "Socket" in networks else (networks[0] if networks else "")
    complete = num_texts > 0 and num_complete == num_texts
    return Transport(version, network, tuple(dict.fromkeys(devices)), dict(channels), complete, sizes == {"1"})


def _without_device_number(way: str) -> str:
    """NET/IB/4/GDRDMA -> NET/IB/GDRDMA: the number is that of the device."""
    return "/".join(part for part in way.split("/") if not part.isdigit())


def misses_infiniband(transport: Transport, *, num_ports: int) -> bool:
    """Does NCCL use sockets although the hosts have active RDMA ports?"""
    return num_ports > 0 and transport.network == "Socket"
