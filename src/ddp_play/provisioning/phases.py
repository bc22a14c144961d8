"""Phases of a provisioning playbook: the roles and hosts of each play. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.provisioning.inventory import matching_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ddp_play.provisioning.inventory import Inventory

NEVER = "never"  # the tag of roles that a play only follows (ddp.play.settled_roles)


@dataclass(frozen=True, slots=True)
class Phase:
    """One play of the playbook: its roles run on all its hosts before the next phase begins."""

    name: str
    hosts: tuple[str, ...]
    roles: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Document for `--json`."""
        return asdict(self)


def plan_phases(plays: list[dict[str, Any]], inventory: Inventory, tags: tuple[str, ...] = ()) -> tuple[Phase, ...]:
    """Plays that have roles, also those without hosts. With `tags`, only roles that have one of them count."""
    found = []
    for play in plays:
        if roles := _chosen(play, tags):
            found.append(Phase(str(play.get("name")), matching_hosts(str(play["hosts"]), inventory), roles))
    return tuple(found)


def _chosen(play: dict[str, Any], tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(role for role, role_tags in _roles(play) if not tags or {*tags} & {*role_tags, "all"})


def _roles(play: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Short names and tags of a play's roles, from `roles:` and from import_role tasks that are not only followed."""
    entries = [(row["role"], tuple(row.get("tags", ()))) for row in play.get("roles", ())]
    for name, tags in (*entries, *_imported(play.get("tasks", ()))):
        if NEVER not in tags:
            yield name.rpartition(".")[2], tags


def _imported(tasks: Iterable[dict[str, Any]], tags: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names of the roles that these tasks import, also in blocks, with the tags that they inherit."""
    for task in tasks:
        own = (*tags, *task.get("tags", ()))
        if imported := task.get("ansible.builtin.import_role"):
            yield imported["name"], own
        yield from _imported(task.get("block", ()), own)


def known_roles(plays: list[dict[str, Any]]) -> tuple[str, ...]:
    """All roles of the playbook in its order."""
    return tuple(dict.fromkeys(role for play in plays for role, _ in _roles(play)))


def known_groups(plays: list[dict[str, Any]]) -> tuple[str, ...]:
    """All groups that the patterns of the plays contain."""
    patterns = [pattern.lstrip("!&") for play in plays for pattern in str(play["hosts"]).split(":")]
    return tuple(dict.fromkeys(pattern for pattern in patterns if pattern != "all"))


def groups_of_roles(plays: list[dict[str, Any]], tags: tuple[str, ...]) -> tuple[str, ...]:
    """Groups whose hosts get a role that has one of the tags; with no tags, of any role."""
    patterns = [pattern for play in plays if _chosen(play, tags) for pattern in str(play["hosts"]).split(":")]
    return tuple(dict.fromkeys(pattern for pattern in patterns if pattern != "all" and pattern[0] not in "!&"))


def planned_cells(phases: tuple[Phase, ...]) -> tuple[tuple[str, str], ...]:
    """(host, role) of every role on every host of the phases."""
    return tuple((host, role) for phase in phases for role in phase.roles for host in phase.hosts)
