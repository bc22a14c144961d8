"""Network traffic of a run per interface, from the hosts' counters before and after it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.plan_document import Plan

# interface, or RDMA device:port -> {"rx": bytes, "tx": bytes}
Counters = dict[str, dict[str, int]]
HOSTS_SHOWN = 4
# Another interface is listed if it carried more than this share of the planned one's traffic.
MIN_SHARE_SHOWN = 0.01
# In a short run, management traffic can exceed the traffic between ranks: below this there is no warning.
MIN_BYTES_WARNED = 50_000_000


def carried(before: Counters, after: Counters) -> Counters:
    """Bytes between two readings. A counter that went back was reset by a reboot and counts from zero."""
    found: Counters = {}
    for name, now in after.items():
        earlier = before.get(name, {})
        moved = {
            key: now[key] - earlier.get(key, 0) if now[key] >= earlier.get(key, 0) else now[key] for key in ("rx", "tx")
        }
        if any(moved.values()):
            found[name] = moved
    return found


def traffic_document(plan: Plan, before: Mapping[str, Counters], after: Mapping[str, Counters]) -> dict[str, Any]:
    """Field `network` of run.json; it leaves out hosts without counters of both the start and the end."""
    hosts = {
        host.name: {"planned": host.interface, "carried": carried(before[host.name], after[host.name])}
        for host in plan.hosts
        if host.name in before and host.name in after
    }
    return {"fabric": plan.fabric, "hosts": hosts}


def total(moved: Counters, name: str) -> int:
    """Bytes of both directions. Loopback counts every byte in both, so only one direction is taken."""
    row = moved.get(name) or {}
    received, sent = row.get("rx") or 0, row.get("tx") or 0
    return sent if name == "lo" else received + sent


def traffic_lines(document: Mapping[str, Any]) -> list[str]:
    """Network lines of a run's summary: traffic of the planned interfaces, then of others."""
    hosts: dict[str, Any] = document.get("hosts") or {}
    if not hosts:
        return []
    if document.get("fabric") == "local":
        most = max(total(row["carried"], "lo") for row in hosts.values())
        return [f"network: all ranks were on one machine: loopback carried {bytes_text(most)}, no network was used"]
    lines = []
    for planned in sorted({row["planned"] for row in hosts.values()}):
        mine = {name: row["carried"] for name, row in hosts.items() if row["planned"] == planned}
        lines.append(f"network: {planned} carried {_per_host(mine, planned)}{_other_interfaces(mine, planned)}")
    return lines + [f"warning: {text}" for text in traffic_warnings(document)]


def _per_host(hosts: Mapping[str, Counters], name: str) -> str:
    texts = [f"{bytes_text(total(moved, name))} ({host})" for host, moved in list(hosts.items())[:HOSTS_SHOWN]]
    if len(hosts) > HOSTS_SHOWN:
        everything = sum(total(moved, name) for moved in hosts.values())
        texts.append(f"..., {bytes_text(everything)} on all {len(hosts)} hosts")
    return ", ".join(texts)


def _other_interfaces(hosts: Mapping[str, Counters], planned: str) -> str:
    """`; other interfaces: eth0 12 MB` for interfaces with more than MIN_SHARE_SHOWN of the planned one's traffic."""
    least = MIN_SHARE_SHOWN * sum(total(moved, planned) for moved in hosts.values())
    others = sorted({name for moved in hosts.values() for name in moved} - {planned})
    sums = [(name, sum(total(moved, name) for moved in hosts.values())) for name in others]
    rows = [f"{name} {bytes_text(count)}{_why(name)}" for name, count in sums if count > least]
    return f"; other interfaces: {', '.join(rows)}" if rows else ""


def _why(name: str) -> str:
    return " (within the host)" if name == "lo" else ""


def traffic_warnings(document: Mapping[str, Any]) -> list[str]:
    """Hosts where another interface carried more than the planned one. RDMA ports count as the planned one."""
    found: list[str] = []
    if document.get("fabric") == "local":
        return found
    for host, row in (document.get("hosts") or {}).items():
        moved, planned = row["carried"], row["planned"]
        best = max(total(moved, name) for name in (planned, *(name for name in moved if ":" in name)))
        for name in moved:
            if name in (planned, "lo") or ":" in name:
                continue
            if total(moved, name) > max(2 * best, MIN_BYTES_WARNED):
                found.append(
                    f"{host}: {name} carried {bytes_text(total(moved, name))}, the planned interface {planned} only "
                    f"{bytes_text(best)}; check whether the job sets GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME"
                )
    return found


def bytes_text(count: float) -> str:
    """1.2 GB, 340 MB, 12 kB: powers of ten, as the speeds of links are given."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
    return f"{count:.0f} bytes"
