"""What an attempt is given to carry out, and its links to the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddp_play.guard.protocol import run_key
from ddp_play.run.host_links import Link

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_channel import Route
    from ddp_play.run.source_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a supervisor is given: the plan, the ways to the hosts, and what must not be written anywhere."""

    plan: Plan
    routes: tuple[Route, ...]
    paths: RunPaths
    snapshot: Snapshot | None = None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    registry: dict[str, str] = field(default_factory=dict, repr=False)
    become_passwords: dict[str, str] = field(default_factory=dict, repr=False)  # by host, as the next
    ssh_passwords: dict[str, str] = field(default_factory=dict, repr=False)
    attempt: int = 1  # no two tries of a run have the same number
    wait_s: float = 0.0  # how long to wait for slots that other runs have; 0: not at all
    token: str = ""  # what tells this run from others of its name
    num_ended: int = 0  # attempts that have run before this one

    @property
    def continues(self) -> bool:
        """Has an earlier attempt run? Then what it left on the shared directory is wanted."""
        return self.num_ended > 0

    @property
    def run_key(self) -> str:
        """The run's name on hosts."""
        return run_key(self.paths.run_id, self.token)


def links_of(given: Assignment, hosts: set[str]) -> list[Link]:
    """A link to each of these hosts."""
    become, ssh = given.become_passwords, given.ssh_passwords
    return [
        Link(route.host, route, become.get(route.host, ""), ssh.get(route.host, ""))
        for route in given.routes
        if route.host in hosts
    ]
