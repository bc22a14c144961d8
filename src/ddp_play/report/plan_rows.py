"""The plan of a run in short, and the traffic of its hosts: planned network against what interfaces carried. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.network_traffic import MIN_SHARE_SHOWN, total, traffic_lines
from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import command_line, plan_from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.plan_document import Plan

SHOWN = (
    *(
        "job",
        "launcher",
        "runtime",
        "image",
        "image_id",
        "backend",
        "backend_reason",
        "fabric",
        "fabric_reason",
        "network",
    ),
    *("init_method", "init_url", "head", "head_addr", "world_size", "source", "signal"),
)


def plan_summary(document: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, hosts, warnings and the command of rank 0; empty without a plan that can be read."""
    plan = read_plan(document)
    if plan is None:
        return {}
    hosts = [
        {"host": host.name, "address": host.address, "interface": host.interface, "speed_mbps": host.speed_mbps,
         "ranks": [host.ranks.start, host.ranks.stop - 1], "gpus": list(host.gpus), "user": host.user_name}
        for host in plan.hosts
    ]  # fmt: skip
    unit = plan.hosts[0].agent or plan.hosts[0].rank(plan.hosts[0].ranks.start) if plan.hosts else None
    return {
        "settings": {name: getattr(plan, name) for name in SHOWN},
        "timeouts": dict(plan.timeouts),
        "hosts": hosts,
        "command": command_line(unit) if unit else "",
        "warnings": list(plan.warnings),
        "left_out": [{"host": host, "why": why} for host, why in plan.left_out],
    }


def read_plan(document: Mapping[str, Any]) -> Plan | None:
    """The plan, unless there is none, or one of another version."""
    try:
        return plan_from_json(dict(document)) if document else None
    except (UsageError, LookupError, TypeError, ValueError):
        return None


def interfaces(document: Mapping[str, Any]) -> dict[str, str]:
    """Planned interface of each host."""
    plan = read_plan(document)
    return {host.name: host.interface for host in plan.hosts} if plan else {}


def traffic(document: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Bytes per host and interface of `network` in run.json, the planned interface first."""
    network = document.get("network") or {}
    speeds = {host["host"]: host["speed_mbps"] for host in plan_summary(plan).get("hosts", ())}
    rows = []
    for host, row in (network.get("hosts") or {}).items():
        moved, planned = row["carried"], row["planned"]
        names = sorted({planned, *moved}, key=lambda name: (name != planned, -total(moved, name), name))
        least = MIN_SHARE_SHOWN * sum(total(moved, name) for name in names)
        rows += [
            {"host": host, "interface": name, "is_planned": name == planned,
             "is_small": name != planned and total(moved, name) < least, **moved.get(name, {"rx": 0, "tx": 0}),
             "speed_mbps": speeds.get(host) if name == planned else None}
            for name in names
        ]  # fmt: skip
    words = str((document.get("nccl") or {}).get("words") or "")
    return {"fabric": network.get("fabric") or "", "rows": rows, "lines": traffic_lines(network), "transport": words}
