"""Leftovers on hosts (`ddp-play gc`, `ps`): runs, directories and containers, and removal of those without a guard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RUN_ID, RunPaths, read_json
from ddp_play.bundle.run_lookup import load
from ddp_play.errors import DiskFull, UsageError
from ddp_play.guard.protocol import run_key, split_run_key
from ddp_play.run.host_sweep import sweep_hosts
from ddp_play.run.left_files import ARTIFACTS_MAX_MIB
from ddp_play.run.waiting_files import WaitingFiles, waiting_files

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.bundle.run_lookup import Run


@dataclass
class Leftovers:
    """Runs and containers that the hosts reported, and which of them may be removed.

    `me`: only leftovers of this initiator; empty: of all. `run`: only those of this run, even while it is active.
    `token`: only the run of that name with this token; empty: only runs of earlier versions, which had no token.
    `collected`: keys of this controller's runs -> whether it has collected what it could, so that the rest may go.
    `sources`: bytes of the sources that a host keeps for later runs, by host, where there are any.
    `lost`: keys of this controller's runs -> (attempt, host) -> what such a host still has.
    `over`: keys of those of them whose hosts an engine had given, so that `attach` cannot reach them any more.
    """

    runs: list[dict[str, Any]] = field(default_factory=list)
    containers: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    me: str = ""
    run: str = ""
    token: str | None = None
    collected: dict[str, bool] = field(default_factory=dict)
    lost: dict[str, dict[tuple[int, str], WaitingFiles]] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)

    @property
    def living(self) -> set[str]:
        """Keys of runs with a guard or a controller on any host; nothing of them is removed on other hosts either."""
        return {_key(row) for row in self.runs if row["guard_alive"] or row.get("attended")}

    @property
    def _unknown(self) -> set[str]:
        """Keys of runs that a version with unknown formats wrote."""
        return {_key(row) for row in self.runs if row.get("unknown")}

    def why_kept(self, row: dict[str, Any]) -> str:
        """Why this run directory or container is kept; empty if it may be removed."""
        if self.run and row["run"] != self.run:
            return "another run"
        if self.token is not None and row.get("token", "") != self.token:
            return "another run of that name"
        untouchable = self._why_untouchable(row)
        if untouchable:
            return untouchable
        if not self.run and _key(row) in self.living:
            return "running"
        if self.me and row.get("owner") not in ("", self.me):
            return f"of {row['owner']}"
        return "" if self.run else self._why_uncollected(row)

    def _why_uncollected(self, row: dict[str, Any]) -> str:
        """Files that a host could not send, or of a run whose supervisor died, here or on another controller."""
        run, key = row["run"], _key(row)
        everybody = "" if self.me else " --all-users"
        removes = f"ddp-play gc -i INVENTORY --run {key}{everybody} --yes removes them for good"
        files = self.lost.get(key, {}).get((int(row.get("attempt") or 0), str(row.get("host"))))
        if row.get("uncollected") and files is not None:
            limit = f" {ARTIFACTS_MAX_MIB} {files.limit_mib}" if files.limit_mib else ""
            helps = "tries again" if files.incomplete and not limit else "collects them"
            collects = "" if key in self.over else f"ddp-play attach {run}{limit} {helps}, "
            which = "some of its files" if files.incomplete else "its files"
            return f"{which} were not collected when the run ended: {collects}{removes}"
        controllers = [
            other.get("controller") for other in self.runs if _key(other) == key and other.get("uncollected")
        ]
        if not controllers or self.collected.get(key):
            return ""  # if a supervisor died, nothing of its run goes on any host
        where = "" if key in self.collected else f" on {controllers[0] or 'its controller'}"
        return f"its files are perhaps not collected: ddp-play attach {run}{where} collects them, {removes}"

    def _why_untouchable(self, row: dict[str, Any]) -> str:
        if row.get("elsewhere"):
            return f"of {row['elsewhere']}, which shares this directory: gc there removes it"
        if _key(row) in self._unknown:
            return str(row.get("unknown") or "of an unknown version of ddp-play")
        return ""

    @property
    def removable(self) -> list[dict[str, Any]]:
        """Run directories that may be removed."""
        return [row for row in self.runs if not self.why_kept(row)]

    @property
    def removable_containers(self) -> list[dict[str, Any]]:
        """Containers that may be removed."""
        return [row for row in self.containers if not self.why_kept(row)]

    @property
    def others(self) -> list[tuple[dict[str, Any], str]]:
        """Rows that are kept, each with the reason."""
        rows = [(row, self.why_kept(row)) for row in (*self.runs, *self.containers)]
        return [(row, why) for row, why in rows if why and why != "another run"]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the runs whose leftovers may be removed."""
        return tuple(sorted({_key(row) for row in (*self.removable, *self.removable_containers)}))

    @property
    def empty(self) -> bool:
        """Is there nothing to remove?"""
        return not (self.removable or self.removable_containers)


def _key(row: dict[str, Any]) -> str:
    return run_key(row["run"], row.get("token", ""))


def find_leftovers(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, *, me: str = "", run: str = ""
) -> Leftovers:
    """Query all hosts of the inventory. `run`: a run id or key; an id that this controller knows means its own run.

    UsageError if several runs on the hosts have the id.
    """
    name, token_of_key = split_run_key(run)
    token = token_of_key or None
    if run and not token and (ours := read_json(RunPaths.of(name).run)):
        token = str(ours.get("token") or "")
    found = Leftovers(me=me, run=name, token=token)
    for host, answer in sweep_hosts(request, passwords, runner, "runs", {}).items():
        if "problem" in answer:
            found.problems[host] = answer["problem"]
            continue
        found.runs += [{**row, "inventory_host": host} for row in answer["runs"]]
        found.containers += [{**row, "inventory_host": host} for row in answer["containers"]]
        if num_bytes := answer.get("sources_bytes", 0):
            found.sources[host] = num_bytes
    for key, our_run in _runs_of_this_controller(found.runs).items():
        found.collected[key] = our_run.over and our_run.document.get("exit_class") != DiskFull.kind
        found.lost[key] = waiting_files(our_run.document)
        if our_run.over and our_run.allocation:
            found.over.add(key)
    if run and len(found.keys) > 1:
        raise UsageError(f"several runs are called {name}", hint=f"name one of them: --run {' or '.join(found.keys)}")
    return found


def _runs_of_this_controller(rows: list[dict[str, Any]]) -> dict[str, Run]:
    """Those of the runs on hosts that this controller has, by key."""
    found = {}
    for name, token in {(row["run"], row.get("token", "")) for row in rows}:
        run = load(RunPaths.of(name)) if RUN_ID.fullmatch(name) and ".." not in name else None
        if run is not None and run.document and str(run.document.get("token") or "") == token:
            found[run_key(name, token)] = run
    return found


def remove_leftovers(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, found: Leftovers, *, sources: bool = False
) -> list[str]:
    """Remove the listed paths and containers. Returns one line for each thing that could not be removed.

    `sources`: remove the kept sources too, whoever's runs they are of.
    """
    nothing: dict[str, Any] = {"paths": [], "containers": [], "living_too": bool(found.run)}
    orders: dict[str, Any] = {host: {**nothing, "sources": True} for host in found.sources} if sources else {}
    for kind, key, rows in (
        ("paths", "path", found.removable),
        ("containers", "id", found.removable_containers),
    ):
        for row in rows:
            order = orders.setdefault(row["inventory_host"], dict(nothing))
            order[kind] = [*order[kind], row[key]]
    answers = sweep_hosts(request, passwords, runner, "clean", orders)
    return [
        f"{host}: {text}"
        for host, answer in answers.items()
        for text in ([answer["problem"]] if "problem" in answer else answer["left"])
    ]
