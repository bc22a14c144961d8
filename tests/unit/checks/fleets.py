"""Fleets for tests of the rules of `ddp-play check`: hosts that are fit, and what is wrong with one of them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ddp_play.checks.check_levels import judge
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.peer_addresses import network_between
from ddp_play.planning.host_facts import HostFacts
from ddp_play.planning.remedy_text import Asked
from tests.unit.build import engine, ethernet, host, shared

ASKED = Asked(("inv",))
SPACE = {"size_mib": 100_000, "free_mib": 50_000, "inodes": 10**6, "free_inodes": 9 * 10**5, "read_only": False}


def facts(number: int, **fields: Any) -> HostFacts:
    """Facts of host h1, h2, ..."""
    own = {"interfaces": (ethernet(f"10.0.0.{number}/24"),), "hostname": f"h{number}", "machine": f"boot-{number}"}
    common = {"engine": engine(), "shared": shared(), "ephemeral_ports": (32768, 60999), "runs": ()}
    return replace(host(f"h{number}", f"10.0.0.{number}/24"), **{**own, **common, **fields})


def readings(number: int, count: int) -> dict[str, Any]:
    """What the program reads on a host without defects."""
    names = {f"h{n}": {"addresses": [f"10.0.0.{n}"], "error": "", "took_s": 0.001} for n in range(1, count + 1)}
    values: dict[str, Any] = {
        "cpu": {"model": "EPYC", "sockets": 2, "cores": 64, "threads": 128, "numa_nodes": 2, "usable": 128},
        "memory": {"total_mib": 500_000 + number, "available_mib": 400_000, "limit_mib": None},
        "cpu_quota": {"cpus": None, "times_throttled": 0},
        "governor": {"governors": ["performance"], "clocksource": "tsc", "max_mhz": 3500 - number},
        "limits": {"nofile": 1 << 20, "memlock": None, "nproc": None, "pids": None, "of": "login"},
        "settings": {"net.core.somaxconn": "4096", "net.ipv4.ip_local_port_range": "32768 60999"},
        "processes": [],
        "software": {"os": "Debian 12", "kernel": "6.1", "python": "3.11.2", "architecture": "x86_64"},
        "reboot_pending": [],
        "memory_errors": {"ue": 0, "ce": 3},
        "identity": {
            "hostname": f"h{number}", "machine_id": f"id{number}", "host_keys": [f"key{number}"],
            "macs": {"eth0": f"02:00:00:00:00:0{number}"}, "guids": [],
        },
        "names": {**names, "ddp-play-check.invalid": {"addresses": [], "error": "unknown", "took_s": 0.01}},
        "nics": {"eth0": {"state": "up", "carrier": "1", "duplex": "full", "carrier_losses": 1, "hardware": True}},
        "default_routes": [{"interface": "eth0", "gateway": "10.0.0.254", "metric": 0}],
        "listeners": {},
        "kernel_log": {},
        "space_state": {**SPACE, "path": "/state"}, "space_tmp": {**SPACE, "path": "/tmp"},
        "space_shm": {**SPACE, "path": "/dev/shm"}, "space_shared": {**SPACE, "path": "/shared"},
        "write_state": {"problem": "", "took_s": 0.01, "path": "/state"},
        "token": {"problem": "", "mount": "nfs4", "source": "nfs:/shared", "owner": 1000, "user": 1000},
    }  # fmt: skip
    return {name: {"value": value, "took_s": 0.01} for name, value in values.items()}


def reached(number: int, count: int) -> dict[str, Any]:
    """What a host without defects sees of its peers."""
    peers = [n for n in range(1, count + 1) if n != number]
    values = {
        "ports": [],
        "path_mtu": {f"h{n}": {"mtu": 1500, "small": True, "large": True, "kernel": 1500} for n in peers},
        "routes": {f"10.0.0.{n}": f"10.0.0.{number}" for n in peers},
        "tokens": {"seen": {f"h{n}": 0.1 for n in peers}},
    }
    return {name: {"value": value, "took_s": 0.01} for name, value in values.items()}


def ended() -> dict[str, Any]:
    """What a host without defects says at the end of the check."""
    return {"token": {"value": "", "took_s": 0.01}}


def fleet(count: int = 3, /, **changes: dict[str, Any]) -> Fleet:
    """Hosts h1, h2, ...; `changes`: by host, facts and values of readings as paths: `{"cpu.usable": 1}`."""
    made = []
    for number in range(1, count + 1):
        name = f"h{number}"
        known = {"reading": readings(number, count), "saw": reached(number, count), "end": ended()}
        own: dict[str, Any] = {"offset_s": 0.001, "trip_s": 0.002}
        fields: dict[str, Any] = {}
        for path, value in changes.get(name, {}).items():
            if path == "clock":
                own = value
            elif path.startswith("facts."):
                fields[path.removeprefix("facts.")] = value
                if path == "facts.gpus":
                    put(known, "dcgmi", "")
                    put(known, "gpu_states", {gpu.uuid: {"index": str(gpu.index)} for gpu in value})
            else:
                put(known, path, value)
        parts = (known["reading"], known["saw"], own, known["end"])
        made.append(CheckedHost(name, facts(number, **fields), "", "", "", *parts))
    return Fleet(tuple(made), network_between(tuple(row.known for row in made)))


def put(known: dict[str, Any], path: str, value: Any) -> None:
    """Set `saw:NAME.KEY...`, `end:NAME` or `NAME.KEY...`; a value of `problem` stands for the whole reading."""
    part, _, path = path.rpartition(":")
    rows = known[part or "reading"]
    name, *keys = path.split(".", 1)
    if isinstance(value, dict) and "problem" in value and not keys:
        rows[name] = value
        return
    row = copy.deepcopy(rows.get(name, {"took_s": 0.01}))
    rows[name] = row
    if not keys:
        row["value"] = value
        return
    at = row["value"]
    *way, last = keys[0].split("/")
    for key in way:
        at = at[key]
    at[last] = value


def bad(checked: Fleet) -> list[Finding]:
    """Findings of the quick level that are no pass."""
    return [row for row in judge(checked, "quick", ASKED) if row.status is not Status.OK]


def the_one(change: dict[str, Any], check: str, status: Status, value: str) -> None:
    """Of three hosts, h3 with this change: there is this finding about it and no other, with all its texts."""
    (found,) = bad(fleet(h3=change))
    assert (found.check, found.status, found.where) == (check, status, ("h3",))
    assert value in found.value
    assert all((found.why, found.command, found.limit, found.source)), found
