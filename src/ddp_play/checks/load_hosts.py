"""Hosts that get load in a check: with torch or DCGM, and used by nobody. Their slots are held: no run starts there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.checks.dcgm_run import with_dcgm
from ddp_play.checks.host_users import READING, idle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddp_play.checks.host_orders import HostOrders
    from ddp_play.planning.host_facts import HostFacts

HOLD_S = 20.0
MOST_USERS = 20  # of a host that are kept


class Pythons(Protocol):
    """Containers as those of the job's ranks."""

    def pythons(self) -> dict[str, str]:
        """By host, the Python with torch."""


@dataclass(frozen=True, slots=True)
class LoadHosts:
    """By host its Python, the readings of all hosts with who uses one by now, and the hosts that have DCGM."""

    pythons: dict[str, str]
    readings: dict[str, Any]
    diagnosed: tuple[str, ...] = ()


def hosts_for_load(
    talk: HostOrders, facts: Mapping[str, HostFacts], readings: Mapping[str, Any], containers: Pythons | None
) -> LoadHosts:
    """The hosts that get load. Each holds all its slots until its connection ends."""
    unused = {name: host for name, host in idle(facts, readings).items() if name not in talk.lost}
    pythons, diagnosed = _pythons(unused, containers), with_dcgm(unused, readings)
    wanted = (*pythons, *(host for host in diagnosed if host not in pythons))
    orders = {host: {"names": list(names)} for host, names in all_slots(facts, wanted).items()}
    answers = talk.documents("check_slots", orders, limit_s=HOLD_S)
    users = {host: _texts(answer.get("users")) for host, answer in answers.items()}
    by_machine = {facts[host].machine: found for host, found in users.items()}
    told = dict(readings)
    for host in wanted:
        if found := by_machine.get(facts[host].machine):
            told[host] = {**told.get(host, {}), READING: {"value": found}}
    free = [host for host in wanted if by_machine.get(facts[host].machine) == []]
    return LoadHosts(
        {host: python for host, python in pythons.items() if host in free},
        told,
        tuple(host for host in diagnosed if host in free),
    )


def all_slots(facts: Mapping[str, HostFacts], hosts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """All slots of the machine of each of these hosts, as runs name them; a machine has them under its first name."""
    first = {facts[host].machine: host for host in reversed(tuple(hosts))}
    found = {}
    for machine, host in first.items():
        here = [one for one in facts.values() if one.machine == machine]
        gpus = dict.fromkeys(f"gpu-{gpu.uuid}" for one in here for gpu in one.gpus)
        found[host] = (*gpus, *(f"slot-{number}" for number in range(sum(max(1, one.slots or 1) for one in here))))
    return found


def _texts(users: object) -> list[str]:
    rows = users if isinstance(users, list) else ["somebody"]
    return [str(row)[:200] for row in rows[:MOST_USERS]]


def _pythons(facts: Mapping[str, HostFacts], containers: Pythons | None) -> dict[str, str]:
    """The ranks' Python on each of these hosts that has torch there, or that of the job's containers."""
    if containers is not None:
        return {name: python for name, python in containers.pythons().items() if name in facts}
    return {name: host.rank_python for name, host in facts.items() if host.rank_torch and not host.rank_python_problem}
