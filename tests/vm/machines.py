"""Emulated machines on a network of their own, two for ranks and one with their shared directory: start, reach, stop.

`python -m tests.vm up` does it by hand.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .image import Image

ACCEL = os.environ.get("DDP_PLAY_VM_ACCEL", "tcg,thread=multi,tb-size=512")
CPUS = int(os.environ.get("DDP_PLAY_VM_CPUS", "2"))
MEMORY_MIB = int(os.environ.get("DDP_PLAY_VM_MEMORY_MIB", "2560"))
STORAGE_CPUS, STORAGE_MEMORY_MIB = 1, 1024
BOOT_S = float(os.environ.get("DDP_PLAY_VM_BOOT_S", "900"))
# The second machine's hardware clock is wrong by this much: only a time daemon that works puts it right.
CLOCK_ERROR = {"vm2": timedelta(minutes=-90)}
NUMBERS = {"vm1": 11, "vm2": 12, "nfs1": 13}
RANKS, STORAGE = ("vm1", "vm2"), "nfs1"
# What a machine sees on its management network; the emulator puts the same on every machine.
CONTROLLER = "10.0.2.2"
MODERN_CPU = "max"
# Processes outlive the one that started them and are ended by `Process`; an object that is collected while its process
# runs is a warning, and a warning fails the test that runs at that moment.
_STARTED: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True)
class Process:
    """A background process, told from a later one with the same number by its start time."""

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _start_time(pid))

    def is_alive(self) -> bool:
        with suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)  # ours may be waiting to be buried
        return bool(self.started) and _start_time(self.pid) == self.started

    def end(self) -> None:
        """TERM, then KILL; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                if self.is_alive():
                    os.kill(self.pid, number)
            if _within(10, lambda: not self.is_alive()):
                return
        raise RuntimeError(f"process {self.pid} does not end")


@dataclass(frozen=True)
class Machine:
    """One virtual machine: `port` on 127.0.0.1 leads to its sshd, `address` is the one on the fabric."""

    name: str
    port: int
    console: Path
    process: Process

    @property
    def address(self) -> str:
        return f"10.77.0.{NUMBERS[self.name]}"

    def ensure_running(self) -> None:
        """RuntimeError with the last lines of the console when the emulator has ended."""
        if not self.process.is_alive():
            tail = self.console.read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError(f"{self.name} is gone:\n" + "\n".join(tail))


@dataclass(frozen=True)
class Cluster:
    """The machines and their time source; `directory` has keys, console logs and inventory."""

    directory: Path
    key: Path
    machines: tuple[Machine, ...]
    time_port: int
    time_server: Process

    @property
    def known_hosts(self) -> Path:
        return self.directory / "known_hosts"

    @property
    def ssh_options(self) -> list[str]:
        """Options that use this cluster's keys and nothing else of the user's."""
        wanted = (f"UserKnownHostsFile={self.known_hosts}", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes")
        return [word for option in wanted for word in ("-o", option)]

    def machine(self, name: str) -> Machine:
        return next(machine for machine in self.machines if machine.name == name)

    def ssh(self, name: str, command: str, *, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        """A command on a machine, as root."""
        machine = self.machine(name)
        # A machine that reboots leaves its connections open: without a sign of life they end before the time limit.
        alive = ("-o", "ConnectTimeout=20", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
        argv = ["ssh", *self.ssh_options, *alive, "-i", str(self.key), "-p", str(machine.port)]
        return subprocess.run(
            [*argv, "root@127.0.0.1", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def on(self, name: str, command: str, *, timeout_s: float = 120) -> str:
        """What a command prints on a machine; it must succeed."""
        done = self.ssh(name, command, timeout_s=timeout_s)
        assert done.returncode == 0, f"{name}: {command}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def await_boot(self) -> None:
        """Return when every machine has started all it wants to start."""
        for machine in self.machines:
            deadline = time.monotonic() + BOOT_S
            while True:
                machine.ensure_running()
                with suppress(subprocess.TimeoutExpired):
                    state = self.ssh(machine.name, "systemctl is-system-running --wait").stdout.strip()
                    if state in {"running", "degraded"}:
                        break
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{machine.name} did not start within {BOOT_S:.0f} s: see {machine.console}")
                time.sleep(1)

    def save(self) -> None:
        """What `load` reads: the machines outlive this process."""
        document = {**asdict(self), "directory": str(self.directory), "key": str(self.key)}
        for row in document["machines"]:
            row["console"] = str(row["console"])
        (self.directory / "cluster.json").write_text(json.dumps(document, indent=2))

    def end(self) -> None:
        """Stop everything; the disks of the machines were never more than open files."""
        for process in (*(machine.process for machine in self.machines), self.time_server):
            process.end()
        (self.directory / "cluster.json").unlink(missing_ok=True)


def load(directory: Path) -> Cluster | None:
    """The cluster somebody left running; None when there is none, or not all of it."""
    try:
        found = json.loads((directory / "cluster.json").read_text())
    except FileNotFoundError:
        return None
    machines = tuple(
        Machine(row["name"], row["port"], Path(row["console"]), Process(**row["process"])) for row in found["machines"]
    )
    cluster = Cluster(directory, Path(found["key"]), machines, found["time_port"], Process(**found["time_server"]))
    if all(process.is_alive() for process in (cluster.time_server, *(machine.process for machine in machines))):
        return cluster
    cluster.end()
    return None


def start(image: Image, directory: Path) -> Cluster:
    """All machines, switched on; `await_boot` says when they can be used."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    time_port = _free_port(socket.SOCK_DGRAM)
    time_server = _background([sys.executable, "-m", "tests.vm.timeserver", str(time_port)], directory / "time.log")
    link = f"ddp-play-vm-{secrets.token_hex(6)}"
    machines: list[Machine] = []
    cluster = Cluster(directory, image.key, (), time_port, time_server)
    try:
        for name in NUMBERS:
            machines.append(_start_machine(image, directory, name, link))
            cluster = Cluster(directory, image.key, tuple(machines), time_port, time_server)
        _know(image, cluster)
        cluster.save()
    except BaseException:
        cluster.end()
        raise
    return cluster


def qemu_argv(image: Image, name: str, *, port: int, console: Path, link: str) -> list[str]:
    """The emulator's command."""
    clock = (datetime.now(UTC) + CLOCK_ERROR.get(name, timedelta())).strftime("%Y-%m-%dT%H:%M:%S")
    cpus, memory_mib = (STORAGE_CPUS, STORAGE_MEMORY_MIB) if name == STORAGE else (CPUS, MEMORY_MIB)
    return [
        "qemu-system-x86_64",
        *("-machine", "pc", "-accel", ACCEL, "-cpu", MODERN_CPU, "-smp", str(cpus), "-m", str(memory_mib)),
        *("-kernel", str(image.kernel), "-initrd", str(image.initrd)),
        *("-append", f"root=/dev/vda rw console=ttyS0 quiet panic=10 mitigations=off systemd.hostname={name}"),
        # snapshot: what the machine writes goes to a file without a name, gone with the emulator
        *("-drive", f"file={image.disk},format=raw,if=virtio,snapshot=on,cache=unsafe"),
        *("-netdev", f"user,id=management,ipv6=off,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=management,romfile=,mac=52:54:00:00:00:{NUMBERS[name]:02x}"),
        *_fabric(name, link),
        *("-device", f"virtio-net-pci,netdev=fabric,romfile=,mac=52:54:00:77:00:{NUMBERS[name]:02x}"),
        *("-device", "virtio-rng-pci", "-rtc", f"base={clock}"),
        *("-nodefaults", "-display", "none", "-serial", f"file:{console}"),
    ]


def _fabric(name: str, link: str) -> list[str]:
    """The network of the machines: the first one is its hub, the others plug into it."""
    first, *others = NUMBERS
    stream = f"stream,addr.type=unix,addr.abstract=on,addr.path={link}"
    if name != first:
        return ["-netdev", f"{stream}-{name},id=fabric,server=off"]
    ports = [
        (
            "-netdev",
            f"{stream}-{other},id=to-{other},server=on",
            "-netdev",
            f"hubport,hubid=0,id={other},netdev=to-{other}",
        )
        for other in others
    ]
    return [*(word for port in ports for word in port), "-netdev", "hubport,hubid=0,id=fabric"]


def _start_machine(image: Image, directory: Path, name: str, link: str) -> Machine:
    port, console = _free_port(socket.SOCK_STREAM), directory / f"{name}.console"
    argv = qemu_argv(image, name, port=port, console=console, link=link)
    machine = Machine(name, port, console, _background(argv, directory / f"{name}.log", TMPDIR="/var/tmp"))
    if not _within(30, lambda: not machine.process.is_alive() or link in Path("/proc/net/unix").read_text()):
        raise RuntimeError(f"{name} does not open its network; see {directory / name}.log")
    if not machine.process.is_alive():
        raise RuntimeError(f"{shlex.join(argv)}: {(directory / f'{name}.log').read_text(errors='replace')}")
    return machine


def _know(image: Image, cluster: Cluster) -> None:
    public = " ".join(image.host_key.with_suffix(".pub").read_text().split()[:2])
    lines = [f"[127.0.0.1]:{machine.port} {public}\n" for machine in cluster.machines]
    cluster.known_hosts.write_text("".join(lines))


def _background(argv: list[str], log: Path, **environment: str) -> Process:
    with log.open("wb") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd=Path(__file__).resolve().parents[2],
            env={**os.environ, **environment},
        )
    _STARTED.append(process)
    return Process.of(process.pid)


def _free_port(kind: socket.SocketKind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_time(pid: int) -> str:
    """Clock ticks after boot; empty when the process is gone or only waits to be buried."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
