"""The plan of a provisioning playbook: which roles on which hosts, phase by phase. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.provisioning.inventory import matching_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.provisioning.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Phase:
    """One play: its roles run on its hosts before the next phase begins."""

    name: str
    hosts: tuple[str, ...]
    roles: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return asdict(self)


def plan_phases(plays: list[dict[str, Any]], inventory: Inventory, tags: tuple[str, ...] = ()) -> tuple[Phase, ...]:
    """Every play that has roles, also where no host is in it; with tags only the roles that carry one of them."""
    found = []
    for play in plays:
        rows = list(_roles(play))
        roles = tuple(role for role, role_tags in rows if not tags or {*tags} & {*role_tags, "all"})
        if roles:
            found.append(Phase(str(play.get("name")), matching_hosts(str(play["hosts"]), inventory), roles))
    return tuple(found)


def _roles(play: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Roles by their short names, with their tags, as `roles:` or as import_role tasks."""
    entries = [(row["role"], row) for row in play.get("roles", ())]
    for task in play.get("tasks", ()):
        imported = task.get("ansible.builtin.import_role")
        if imported:
            entries.append((imported["name"], task))
    for name, row in entries:
        yield name.rpartition(".")[2], tuple(row.get("tags", ()))


def known_roles(plays: list[dict[str, Any]]) -> tuple[str, ...]:
    """Every role of the playbook, in its order."""
    return tuple(dict.fromkeys(role for play in plays for role, _ in _roles(play)))


def known_groups(plays: list[dict[str, Any]]) -> tuple[str, ...]:
    """Every group that the playbook's patterns name."""
    words = [word.lstrip("!&") for play in plays for word in str(play["hosts"]).split(":")]
    return tuple(dict.fromkeys(word for word in words if word != "all"))


def planned_cells(phases: tuple[Phase, ...]) -> tuple[tuple[str, str], ...]:
    """(host, role) of everything that the plan holds."""
    return tuple((host, role) for phase in phases for role in phase.roles for host in phase.hosts)
