"""Collection from hosts that were lost before their files were collected, and are back.

The run goes on or has ended without them. Their files come into the folder of their attempt, and the verdict stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json
from ddp_play.bundle.sample_store import SampleStore
from ddp_play.bundle.writer import BeyondEndError, Bundle
from ddp_play.errors import DdpPlayError
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.collect_and_clean import CLEAN_S, collect, drain, left_files
from ddp_play.run.host_data import keep_data
from ddp_play.run.host_frames import HostFrameError
from ddp_play.run.host_links import Gang
from ddp_play.run.host_spec import run_paths
from ddp_play.run.kept_output import incomplete, is_collected, kept_rows, order_to_keep, orders_to_keep
from ddp_play.run.lost_hosts import end_ranks
from ddp_play.run.rank_states import damaged_logs, damaged_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.bundle.paths import RunPaths
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.collection_progress import Told
    from ddp_play.run.kept_output import Order
    from ddp_play.run.link import Link

POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class LateResult:
    """What came from the hosts of one attempt. `collected`: hosts whose files are in the bundle.

    `without_logs`: those of them whose logs were removed by an earlier cleanup. `gone`: hosts without any file of it.
    `damaged`: ranks of which lines of the log may be missing.
    `missing`: rows for run.json about files that could not be collected. `left`: host -> what remains on it.
    `away`: host -> why nothing came from it. `log_bytes`: size of the log in the bundle of each collected host's ranks.
    `incomplete`, `keeps`: as in `Collected`. `unconfirmed`: collected hosts that did not confirm the cleanup, or have
    left something that is no file of the attempt.
    """

    collected: tuple[str, ...] = ()
    missing: tuple[dict[str, Any], ...] = ()
    left: dict[str, list[str]] = field(default_factory=dict)
    away: dict[str, str] = field(default_factory=dict)
    log_bytes: dict[int, int] = field(default_factory=dict)
    without_logs: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    incomplete: dict[str, int] = field(default_factory=dict)
    keeps: dict[str, Order] = field(default_factory=dict)
    unconfirmed: tuple[str, ...] = ()


class LateCollection:
    """One attempt's conversation with hosts that may be back: end its ranks, collect, clean."""

    def __init__(
        self,
        assignment: Assignment,
        hosts: set[str],
        *,
        newest: bool,
        interruption: Callable[[str], str] = lambda _kind: "",
        limit_mib: int = 0,
        told: Told = lambda _num_bytes: None,
    ) -> None:
        """`newest`: no later attempt followed, so its files belong into the bundle itself.

        `interruption`: as in `Gang`. `limit_mib`: of the artifacts of a host, if that of the plan is lower.
        `told`: as in `CollectionProgress`.
        """
        self._paths = assignment.paths if newest else assignment.paths.attempt(assignment.attempt)
        self._plan = _plan_of(self._paths, assignment, limit_mib)
        self._newest, self._told = newest, told
        self._bundle = Bundle(self._paths)
        self._samples = SampleStore(self._bundle, assignment.paths, assignment.attempt)
        self._failed = ""  # a piece could not be stored: everything after it is dropped, and no host is cleaned
        known = links_of(assignment, hosts, self._plan)
        self._gone: tuple[str, ...] = ()
        self._away = dict.fromkeys(hosts - {link.name for link in known}, "no route to it is known")
        self._interruption = interruption
        self._gang = Gang(
            known,
            run_id=assignment.paths.run_id,
            token=assignment.token,
            attempt=assignment.attempt,
            on_data=self._on_data,
            offsets=lambda host: self._bundle.offsets(self._plan, host) | self._samples.offset(host),
            interruption=interruption,
        )

    def run(self, *, open_s: float) -> LateResult:
        """Collect from the hosts that answer within `open_s` and clean them.

        Nothing is removed from a host whose logs and files did not all arrive.
        """
        try:
            self._open(open_s)
            if self._gang.links:
                self._end_ranks()
            return self._collect() if self._gang.links else LateResult(away=self._away, gone=self._gone)
        finally:
            with contextlib.suppress(OSError, ValueError):
                self._gang.close()

    def _open(self, open_s: float) -> None:
        """Keep the links of the hosts that answer."""
        until = time.monotonic() + open_s
        while any(link.place is None for link in self._gang.links) and time.monotonic() < until:
            if self._interruption("open"):
                break
            self._gang.reopen()
            self._gang.pump(POLL_S)
            for link in [link for link in self._gang.links if link.refused]:
                refused = link.refused or {}
                self._drop(link, " -> ".join(filter(None, (str(refused.get("message")), refused.get("hint")))))
        for link in [link for link in self._gang.links if link.place is None]:
            broken = link.channel.broken if link.channel is not None else ""
            self._drop(link, broken or f"no answer for {open_s:.0f} s")
        self._gone = tuple(link.name for link in self._gang.links if link.place and not link.place.has_files)
        for name in self._gone:
            self._drop(self._gang.link(name), "")
            del self._away[name]

    def _drop(self, link: Link, why: str) -> None:
        self._away[link.name] = why
        self._gang.links.remove(link)
        if link.channel is not None:
            link.channel.close(why)

    def _end_ranks(self) -> None:
        """Follow the logs, and drop hosts whose ranks do not end."""
        for link in self._gang.links:
            self._gang.follow(link)
        for name in end_ranks(self._gang, self._plan):
            self._drop(self._gang.link(name), "its ranks did not end")

    def _collect(self) -> LateResult:
        artifacts = self._newest or not self._plan.source_shared  # what attempts share is collected with the last one
        undrained = drain(self._gang)
        missing = collect(self._gang, self._plan, self._paths, artifacts=artifacts, told=self._told)
        missing = [*undrained, *missing]
        for link in [link for link in self._gang.links if self._failed or not is_collected(link)]:
            self._drop(link, self._failed or link.lost or "its files could not be collected")
        missing = [row for row in missing if row["host"] not in self._away]
        left = self._clean(missing)
        with_logs = [link for link in self._gang.links if link.place and link.place.has_logs]
        return LateResult(
            collected=tuple(link.name for link in self._gang.links),
            missing=(*missing, *damaged_logs(self._gang)),
            left=left,
            away=self._away,
            log_bytes={rank: self._bundle.log_size(rank) for link in with_logs for rank in link.ranks},
            without_logs=tuple(link.name for link in self._gang.links if link not in with_logs),
            gone=self._gone,
            damaged=tuple(rank for link in with_logs for rank in sorted(damaged_ranks(link))),
            incomplete=incomplete(self._gang.links, missing),
            keeps=orders_to_keep(self._gang.links, missing),
            unconfirmed=tuple(
                link.name for link in self._gang.links if link.replies.get("cleaned", {}).get("left", True)
            ),
        )

    def _clean(self, missing: list[dict[str, Any]]) -> dict[str, list[str]]:
        """Remove what is in the bundle now; directories with files that are `missing` stay. Returns what is left."""
        hosts = {host.name: host for host in self._plan.hosts}

        def order(link: Link) -> dict[str, Any]:
            last = self._newest and link.name == self._plan.head  # what all attempts share stayed for its sake
            paths = run_paths(hosts[link.name], self._gang.run_key) if last else []
            keep = order_to_keep(link, missing)
            return {**keep, "run_paths": [] if keep["keep_src"] else paths}

        left, after = {}, left_files(self._gang)
        with contextlib.suppress(DdpPlayError):  # hosts without a reply are named below
            self._gang.ask("clean", "cleaned", deadline_s=CLEAN_S, fields=order)
        missed = incomplete(self._gang.links, missing)
        for link in self._gang.links:
            reply, limit_mib = link.replies.get("cleaned"), missed.get(link.name)
            if reply is None:
                why = "the host did not confirm the cleanup"
                left[link.name] = [after.uncleaned(why, is_collected=True, limit_mib=limit_mib)]
            elif rows := [*reply["left"], *kept_rows(link, reply.get("kept") or [], after, limit_mib or 0)]:
                left[link.name] = rows
        return left

    def _on_data(self, link: Link, frame: Frame) -> None:
        if self._failed:
            return
        try:
            keep_data(link, self._bundle, self._samples, frame)
        except BeyondEndError as error:
            raise HostFrameError(f"a piece beyond the end of a file: {error}") from error
        except (DdpPlayError, OSError) as error:
            self._failed = f"it cannot be stored here: {error}"


def _plan_of(paths: RunPaths, assignment: Assignment, limit_mib: int) -> Any:
    document = read_json(paths.plan)
    plan = plan_from_json(document) if document else assignment.plan
    return dataclasses.replace(plan, artifacts_max_mib=max(limit_mib, plan.artifacts_max_mib))
