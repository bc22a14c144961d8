"""Assignment of one attempt: plan, routes to the hosts, snapshot and secrets; and its links to the hosts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import read_json
from ddp_play.engines.route import Route
from ddp_play.guard.protocol import run_key
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run.host_files import HostFiles
from ddp_play.run.host_spec import PATIENCE_S, SETTLE_S
from ddp_play.run.link import Link
from ddp_play.run.run_hooks import RunHooks, hooks_of
from ddp_play.run.source_snapshot import read_snapshot

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_channel import ProcessChannel
    from ddp_play.run.job_check import Judge
    from ddp_play.run.source_snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Waiting:
    """Request to wait for slots. `until`: monotonic time at which the run gives up.

    `since`: when it began to wait, by the clocks of its hosts: its place in their queues. None before it begins.
    """

    until: float
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """Input of a supervisor. `secrets`, `registry` and the passwords exist in memory only and are never written."""

    plan: Plan
    routes: tuple[Route, ...]
    paths: RunPaths
    snapshot: Snapshot | None = None
    secrets: dict[str, str] = field(default_factory=dict, repr=False)
    registry: dict[str, str] = field(default_factory=dict, repr=False)
    become_passwords: dict[str, str] = field(default_factory=dict, repr=False)  # by host
    ssh_passwords: dict[str, str] = field(default_factory=dict, repr=False)  # by host
    attempt: int = 1  # unique in the run, also among attempts that did not start
    waiting: Waiting | None = None  # wait for slots that other runs hold; None: end the run if they are taken
    token: str = ""  # distinguishes this run from others of the same name
    num_ended: int = 0  # number of earlier attempts whose ranks were started
    last_hosts: frozenset[str] = frozenset()  # hosts of the last of these; a drained host takes the run's restart
    channels: dict[str, ProcessChannel] = field(default_factory=dict)  # by host, open already, for the first attempt
    judge: Judge | None = None  # of the hosts before the start; None: they are not checked
    hooks: RunHooks = RunHooks()  # noqa: RUF009 - frozen
    settle_s: float = SETTLE_S  # from a rank's failure to the stop; the rank that failed first may be reported late
    patience_s: float = PATIENCE_S  # instead of settle_s while every rank that ended reports a lost peer

    @property
    def continues(self) -> bool:
        """Has an earlier attempt run? Then its files on the shared directory are kept."""
        return self.num_ended > 0

    @property
    def run_key(self) -> str:
        """The run's name on its hosts."""
        return run_key(self.paths.run_id, self.token)


def links_of(assignment: Assignment, hosts: set[str], plan: Plan | None = None) -> list[Link]:
    """A link to each of `hosts` with a known route. `plan`: of an earlier attempt, if it is about that."""
    plan = plan or assignment.plan
    ranks = {host.name: frozenset(host.ranks) for host in plan.hosts}
    max_bytes = plan.artifacts_max_mib * 1024 * 1024
    become, ssh = assignment.become_passwords, assignment.ssh_passwords
    return [
        Link(
            route.host,
            route,
            become.get(route.host, ""),
            ssh.get(route.host, ""),
            ranks=ranks.get(route.host, frozenset()),
            files=HostFiles(route.host, max_bytes),
        )
        for route in assignment.routes
        if route.host in hosts
    ]


def assignment_from_bundle(paths: RunPaths, passwords: Passwords) -> Assignment:
    """The last attempt of a run whose supervisor is gone, without secrets. Its run directory has all that is needed."""
    document = read_json(paths.run)
    routes = tuple(Route.from_json(row) for row in read_json(paths.channels)["routes"])
    attempt = int(document.get("attempt") or 1)
    earlier = [row for row in document.get("attempts") or () if row["attempt"] != attempt]
    snapshot = None
    if paths.source_archive.exists():
        snapshot = read_snapshot(paths.source_archive, document["source"]["sha256"])
    return Assignment(
        plan_from_json(read_json(paths.plan)),
        routes,
        paths,
        snapshot=snapshot,
        become_passwords={route.host: passwords.become for route in routes},
        ssh_passwords={route.host: passwords.connection for route in routes if route.asks_password},
        attempt=attempt,
        hooks=hooks_of(paths),
        token=str(document.get("token") or ""),  # earlier versions of ddp-play wrote no token
        num_ended=len(earlier),
        last_hosts=frozenset(earlier[-1]["hosts"] if earlier else ()),
    )
