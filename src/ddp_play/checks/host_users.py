"""Whether somebody uses a host: then a check puts no load on it, which would slow both, and says so. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.host_facts import HostFacts

READING = "living_runs"  # of the host: `run calm-otter-1 of kim` for each that anybody has there


def used_by(facts: HostFacts, readings: Mapping[str, Any]) -> str:
    """Why the host gets no load; empty if nobody uses it. Without the reading, runs of the login's own user count."""
    row = readings.get(READING)
    found = row.get("value") if isinstance(row, dict) else None
    if not isinstance(found, list):
        own = [run for run in facts.runs if run.get("guard_alive")]
        found = [f"run {run.get('run')} of {run.get('owner') or facts.user.login_name}" for run in own]
    users = [*map(str, found), *(f"GPU {gpu.index}: {user}" for gpu in facts.gpus for user in gpu.users)]
    return f"no load where somebody is: {short_list(users)}"[:400] if users else ""


def idle(facts: Mapping[str, HostFacts], readings: Mapping[str, Mapping[str, Any]]) -> dict[str, HostFacts]:
    """The hosts that nobody uses."""
    return {name: host for name, host in facts.items() if not used_by(host, readings.get(name, {}))}
