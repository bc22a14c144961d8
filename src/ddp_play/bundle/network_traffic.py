"""Which network carried how much during a run: the hosts' counters before and after it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.plan_document import Plan

# interface, or RDMA device:port -> {"rx": bytes, "tx": bytes}
Counters = dict[str, dict[str, int]]
HOSTS_SHOWN = 4
# An interface beside the planned one is worth a word from this share of what that one carried.
WORTH_A_WORD = 0.01
# Management traffic of a short run may well exceed what its ranks exchanged.
WORTH_A_WARNING = 50_000_000


def carried(before: Counters, after: Counters) -> Counters:
    """Bytes in between. A counter that went back was reset by a reboot: it counts from zero."""
    found: Counters = {}
    for name, now in after.items():
        then = before.get(name, {})
        moved = {way: now[way] - then.get(way, 0) if now[way] >= then.get(way, 0) else now[way] for way in ("rx", "tx")}
        if any(moved.values()):
            found[name] = moved
    return found


def measured(plan: Plan, before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Any]:
    """What run.json says about networks; hosts whose counters are not known at both ends are left out."""
    hosts = {
        host.name: {"planned": host.interface, "carried": carried(before[host.name], after[host.name])}
        for host in plan.hosts
        if host.name in before and host.name in after
    }
    return {"fabric": plan.fabric, "hosts": hosts}


def total(moved: Counters, name: str) -> int:
    """Both directions together; what loopback sends it also receives."""
    row = moved.get(name, {"rx": 0, "tx": 0})
    return row["tx"] if name == "lo" else row["rx"] + row["tx"]


def traffic_lines(document: Mapping[str, Any]) -> list[str]:
    """The network part of a run's summary: what the planned interfaces carried, and what else was busy."""
    hosts: dict[str, Any] = document.get("hosts") or {}
    if not hosts:
        return []
    if document.get("fabric") == "local":
        most = max(total(row["carried"], "lo") for row in hosts.values())
        return [f"network: all ranks were on one machine: loopback carried {bytes_text(most)}, no network was used"]
    lines = []
    for planned in sorted({row["planned"] for row in hosts.values()}):
        mine = {name: row["carried"] for name, row in hosts.items() if row["planned"] == planned}
        lines.append(f"network: {planned} carried {_per_host(mine, planned)}{_beside(mine, planned)}")
    return lines + [f"warning: {text}" for text in traffic_warnings(document)]


def _per_host(hosts: Mapping[str, Counters], name: str) -> str:
    texts = [f"{bytes_text(total(moved, name))} ({host})" for host, moved in list(hosts.items())[:HOSTS_SHOWN]]
    if len(hosts) > HOSTS_SHOWN:
        everything = sum(total(moved, name) for moved in hosts.values())
        texts.append(f"and so on, {bytes_text(everything)} on {len(hosts)} hosts")
    return ", ".join(texts)


def _beside(hosts: Mapping[str, Counters], planned: str) -> str:
    """`; beside it eth0 12 MB` for everything else that carried a share worth a word."""
    least = WORTH_A_WORD * sum(total(moved, planned) for moved in hosts.values())
    others = sorted({name for moved in hosts.values() for name in moved} - {planned})
    sums = [(name, sum(total(moved, name) for moved in hosts.values())) for name in others]
    said = [f"{name} {bytes_text(count)}{_why(name)}" for name, count in sums if count > least]
    return f"; beside it {', '.join(said)}" if said else ""


def _why(name: str) -> str:
    return " (ranks of one host among themselves)" if name == "lo" else ""


def traffic_warnings(document: Mapping[str, Any]) -> list[str]:
    """Hosts where another network than the planned one carried the run; RDMA ports belong to the planned one."""
    found: list[str] = []
    if document.get("fabric") == "local":
        return found
    for host, row in (document.get("hosts") or {}).items():
        moved, planned = row["carried"], row["planned"]
        best = max(total(moved, name) for name in (planned, *(name for name in moved if ":" in name)))
        for name in moved:
            if name in (planned, "lo") or ":" in name:
                continue
            if total(moved, name) > max(2 * best, WORTH_A_WARNING):
                found.append(
                    f"{host}: {name} carried {bytes_text(total(moved, name))}, and {planned}, which the plan chose, "
                    f"{bytes_text(best)}; does the job set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME itself?"
                )
    return found


def bytes_text(count: float) -> str:
    """1.2 GB, 340 MB, 12 kB: powers of ten, as links are sold."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count:.0f} bytes"
