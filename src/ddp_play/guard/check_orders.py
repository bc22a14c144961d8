"""Orders of `ddp-play check`: the readings of this host, and its part in the tests between hosts."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import (
    dcgm_diagnostic,
    diagnostic_outputs,
    gpu_states,
    gpus,
    kernel_log_reading,
    leases,
    living_runs,
    machine_readings,
    name_readings,
    network_readings,
    nic_counters,
    peer_probe,
    rank_program,
    state_directory,
    storage_readings,
)
from .bounded_reading import Reading, read_all
from .refusal import Refused

if TYPE_CHECKING:
    from .protocol import Header

# Seconds for a reading of files of the kernel, of a program's output, and of a directory that a server may hold. All
# start at once, and a busy host needs seconds for all of them; its disk, for what is written through to it, more.
FILES_S, TOOL_S, DIRECTORY_S = 8.0, 10.0, 15.0
RESOLVE_S = 1.5 * name_readings.RESOLVE_S + 1.0
SEEN_S = 3.0


class CheckOrders:
    """What this host holds for a check. `send`: of the channel."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.listener: Optional[peer_probe.Listener] = None
        self.held: List[leases.Lease] = []  # on its ports, so that no run that starts meanwhile takes one
        self.slots: List[leases.Lease] = []  # while this host has load
        self.token: List[Any] = []  # path, word and name of the file that this host has in the shared directory

    def on_check_clock(self, _header: Header) -> None:
        """Answer the time; how long the answer takes bounds its error."""
        self.send("check_clock", clock=time.time())

    def on_check_read(self, header: Header) -> None:
        """The readings of this host: all, or those that the order names, and a token where it has one."""
        self._keep(header.get("token"))
        wanted = readings(header)
        only = header.get("only")
        if only is not None:
            wanted = {name: reading for name, reading in wanted.items() if name in only}
        self._answer("check_read", read_within(wanted, header.get("within_s")))

    def on_check_counters(self, header: Header) -> None:
        """What NICs have counted, to compare with the reading of the start."""
        counted: Dict[str, Reading] = {"counters": (nic_counters.counters, FILES_S)}
        self._answer("check_counters", read_within(counted, header.get("within_s")))

    def on_check_outputs(self, header: Header) -> None:
        """Outputs of diagnostic programs."""
        self._answer("check_outputs", read_within(diagnostic_outputs.wanted(), header.get("within_s")))

    def on_check_listen(self, header: Header) -> None:
        """Listen on the ports for the peers, but for those that runs have leased. Answers those that it has."""
        self.close()
        ports = [int(port) for port in header["ports"]]
        held = {port: lease for port in ports if (lease := leases.hold("port-%d" % port)) is not None}
        self.held = list(held.values())
        try:
            found = peer_probe.Listener(header["address"], list(held), header["word"])
        except OSError as error:
            raise Refused("cannot listen on %s: %s" % (header["address"], error.strerror)) from error
        self.listener = found
        answer = {"ports": found.ports, "chosen": found.chosen, "datagram_port": found.datagram_port,
                  "taken": {str(port): why for port, why in found.taken.items()}}  # fmt: skip
        self._answer("check_listen", answer)

    def on_check_reach(self, header: Header) -> None:
        """Connect to the listeners of the peers, and look for what packets pass and for their tokens."""
        peers, source, limit_s = list(header["peers"]), str(header["source"]), float(header["limit_s"])
        wanted: Dict[str, Reading] = {}
        if peers:
            targets = [peer["address"] for peer in peers]
            wanted["ports"] = (lambda: peer_probe.connect_all(peers, source, limit_s), limit_s + FILES_S)
            wanted["path_mtu"] = (lambda: peer_probe.path_mtus(peers, source, limit_s), limit_s + FILES_S)
            wanted["routes"] = (lambda: network_readings.source_addresses(targets), FILES_S)
        token = header.get("token")
        if token:
            path, word, others = str(token[0]), str(token[1]), [str(name) for name in header["others"]]
            wanted["tokens"] = (lambda: storage_readings.see_tokens(path, word, others, SEEN_S), SEEN_S + DIRECTORY_S)
        self._answer("check_reach", read_within(wanted, header.get("within_s")))

    def on_check_slots(self, header: Header) -> None:
        """Hold all slots until the connection ends, so that no run starts under load.

        Answers who uses this host. Then it has no load, and nothing is held.
        """
        self._free_slots()
        scope = leases.slot_scope()
        names = [leases.CHECK % os.getpid(), *(str(name) for name in header["names"])]
        held = {name: lease.answer() for name in names if (lease := leases.hold(name, scope)) is not None}
        self.slots = list(held.values())
        # a run that started before this one held them all, also one whose slots have other names
        living = read_all({"living_runs": (living_runs.living_runs, FILES_S)})["living_runs"].get("value", ())
        taken = [name for name in names if name not in held]
        users = {*living, *leases.holders(taken, scope)} or ({"another run"} if taken else set())
        if users:
            self._free_slots()
        self._answer("check_slots", {"users": sorted(users)})

    def on_check_torch(self, header: Header) -> None:
        """Run a program in the ranks' Python. Its port belongs to no run meanwhile, or nothing begins."""
        words, limit_s = (str(header["python"]), str(header["source"]), dict(header["order"])), float(header["limit_s"])
        program: Reading = (lambda: rank_program.run(*words, limit_s), limit_s + FILES_S)
        self._answer("check_torch", rank_program.with_port(header.get("port"), lambda: read_all({"program": program})))

    def on_check_dcgm(self, header: Header) -> None:
        """Run NVIDIA's diagnostic of this level on all GPUs."""
        level, limit_s, stop_s = int(header["level"]), float(header["limit_s"]), float(header["stop_s"])
        reading: Reading = (lambda: dcgm_diagnostic.run(level, limit_s, stop_s), limit_s + stop_s + FILES_S)
        self._answer("check_dcgm", read_all({"diagnostic": reading}))

    def on_check_end(self, header: Header) -> None:
        """Close the ports and remove this host's token."""
        self.close()
        token = header.get("token")
        wanted: Dict[str, Reading] = {}
        if token:
            wanted["token"] = (lambda: storage_readings.remove_token(*token), DIRECTORY_S)
        self.token = []
        self._answer("check_end", read_all(wanted))

    def _keep(self, token: object) -> None:
        self.token = token if isinstance(token, list) else []

    def hang_up(self) -> None:
        """Give back what the controller did not order back before its connection ended."""
        self.close()
        self._free_slots()
        if self.token:
            read_all({"token": (lambda: storage_readings.remove_token(*self.token), DIRECTORY_S)})

    def close(self) -> None:
        """Free the ports."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        for lease in self.held:
            lease.close()
        self.held = []

    def _free_slots(self) -> None:
        for lease in self.slots:
            lease.close()
        self.slots = []

    def _answer(self, kind: str, value: object) -> None:
        self.send(kind, json.dumps(value).encode())


def read_within(wanted: Dict[str, Reading], within_s: object) -> Dict[str, Dict[str, Any]]:
    """`read_all`, of which no reading takes longer than the check has (None: it has time)."""
    if not isinstance(within_s, (int, float)):
        return read_all(wanted)
    found = read_all({name: (read, min(limit_s, float(within_s))) for name, (read, limit_s) in wanted.items()})
    for name, row in found.items():
        if "problem" in row and row["took_s"] >= within_s and within_s < wanted[name][1]:
            row["problem"] += " (--within)"
    return found


def readings(order: Header) -> Dict[str, Reading]:
    """What is read. `order`: names of peers, the job's range of ports, the shared directory with this host's token."""
    names: List[str] = [str(name) for name in order.get("names", ())]
    first, last = (int(port) for port in order["port_range"])
    state = state_directory.choose().path
    found: Dict[str, Reading] = {
        **{name: (getattr(machine_readings, name), FILES_S) for name in (
            "cpu", "memory", "cpu_quota", "governor", "limits", "settings", "processes", "software", "reboot_pending",
            "memory_errors")},
        "identity": (name_readings.identity, FILES_S),
        "names": (lambda: name_readings.resolve(names), RESOLVE_S),
        "nics": (network_readings.nics, FILES_S),
        "counters": (nic_counters.counters, FILES_S),
        "default_routes": (network_readings.default_routes, FILES_S),
        "listeners": (lambda: network_readings.listeners(first, last), FILES_S),
        "living_runs": (living_runs.living_runs, TOOL_S),
        "kernel_log": (kernel_log_reading.read, TOOL_S),
        "dcgmi": (dcgm_diagnostic.installed, FILES_S),
        "gpu_states": (gpu_states.states, gpus.SMI_S),
        "space_state": (lambda: {**storage_readings.space(state), "path": state}, DIRECTORY_S),
        "space_tmp": (lambda: {**storage_readings.space("/tmp"), "path": "/tmp"}, DIRECTORY_S),
        "space_shm": (lambda: {**storage_readings.space("/dev/shm"), "path": "/dev/shm"}, DIRECTORY_S),
        "write_state": (lambda: {**storage_readings.write_probe(state), "path": state}, DIRECTORY_S),
    }  # fmt: skip
    shared = order.get("token")
    if shared:
        path = str(shared[0])
        found["space_shared"] = (lambda: {**storage_readings.space(path), "path": path}, DIRECTORY_S)
        found["token"] = (lambda: storage_readings.write_token(*shared), DIRECTORY_S)
    return found
