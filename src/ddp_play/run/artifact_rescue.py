"""Rescue of artifacts that an earlier attempt left on the shared directory when no further attempt starts.

While attempts follow each other the shared working directory stays as it is. When the next attempt is refused or
interrupted, this collects it through any host that still answers. The rest is kept and listed in run.json.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import DdpPlayError, InternalError
from ddp_play.planning.launch_placeholders import RUN_ID, RUN_KEY, bind
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.collect_and_clean import CLEAN_S, rows_of, shared_with_lost_head
from ddp_play.run.collection_progress import longest_s
from ddp_play.run.host_files import keep_piece
from ddp_play.run.host_links import Gang
from ddp_play.run.host_spec import run_paths, user_of_ranks
from ddp_play.run.link import SILENCE_S, Link

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.writer import Bundle
    from ddp_play.guard.protocol import Frame
    from ddp_play.planning.plan_document import HostPlan
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.stop_requests import StopRequests

OPEN_S = 20.0
POLL_S = 0.5


def source_order(assignment: Assignment, host: HostPlan) -> dict[str, Any]:
    """Fields of the order `fetch` with which any host collects the working directory that all hosts share."""
    # an earlier version's plan has the run's id there
    path = bind(host.source_dir, {RUN_KEY: assignment.run_key, RUN_ID: assignment.paths.run_id})
    manifest = assignment.snapshot.manifest if assignment.snapshot is not None else {}
    return {"source": {"path": path, "manifest": manifest, "collect": True}}


def order_for_head(assignment: Assignment, gang: Gang) -> dict[str, Any] | None:
    """How the first host that answers collects the shared working directory, if the head is lost."""
    first = next((link.name for link in gang.links if not link.lost), "")
    if not first or not shared_with_lost_head(gang, assignment.plan):
        return None
    return source_order(assignment, next(host for host in assignment.plan.hosts if host.name == first))


class Rescue:
    """Collects the shared working directory of a run without an active attempt, or lists it in `left`."""

    def __init__(self, assignment: Assignment, bundle: Bundle, stop_requests: StopRequests, journal: Journal) -> None:
        """`assignment`: the attempt that did not start; its number is the highest of the run."""
        self.assignment = assignment
        self.bundle = bundle
        self.hosts = {host.name: host for host in assignment.plan.hosts if host.shared_dir}
        self.missing: list[dict[str, Any]] = []
        self.left: dict[str, list[str]] = {}
        self._journal = journal
        self._interruption = stop_requests.later_stop_now()
        self._drop_files = False  # a file could not be stored: later pieces are dropped, the file would be incomplete
        self._gang = Gang(
            links_of(assignment, set(self.hosts)),
            run_id=assignment.paths.run_id,
            token=assignment.token,
            attempt=assignment.attempt,
            on_data=self._on_data,
            interruption=self._interruption,
        )

    def run(self, *, unsafe: tuple[str, ...] = ()) -> None:
        """Fill `missing` and `left`. `unsafe`: hosts whose ranks may still write there, so nothing is removed."""
        if not self.hosts:
            return
        try:
            self.bundle.update_run(status=str(RunStatus.COLLECTING))
            self._journal.emit("phase", phase=str(RunStatus.COLLECTING))
            link = self._any_host()
            why = "no host answers" if link is None else self._collect(self.hosts[link.name], link)
            if link is not None and not why and unsafe:
                why = f"ranks may still write there from {', '.join(unsafe)}"
            if link is not None and not why:
                self._remove(self.hosts[link.name], link)
            elif why:
                self._list_uncollected(self.hosts[link.name if link is not None else next(iter(self.hosts))], why)
        except (
            DdpPlayError,
            OSError,
            ValueError,
        ) as error:  # the controller's disk is full, or a host sends invalid data
            self._list_uncollected(next(iter(self.hosts.values())), f"not collected: {error}")
        finally:
            with contextlib.suppress(OSError, ValueError):
                self._gang.close()

    def _on_data(self, link: Link, frame: Frame) -> None:
        if frame[0]["t"] != "file" or self._drop_files:
            return
        try:
            keep_piece(link.files, self.bundle, *frame)
        except (DdpPlayError, OSError, ValueError, KeyError) as error:
            self._drop_files = True
            raise InternalError(f"a file from {link.name} cannot be kept: {error}") from error

    def _any_host(self) -> Link | None:
        """The first host that answers, the head before others; None when none does."""
        until = time.monotonic() + OPEN_S
        while time.monotonic() < until and not self._interruption("open"):
            self._gang.reopen()
            self._gang.pump(POLL_S)
            open_ones = [link for link in self._gang.links if link.place is not None]
            if open_ones:
                return next((link for link in open_ones if link.name == self.assignment.plan.head), open_ones[0])
        return None

    def _collect(self, host: HostPlan, link: Link) -> str:
        """Reason why not all files could be collected; empty if all are in the bundle."""
        if not (self.assignment.plan.source_shared and host.source_dir):
            return ""  # the working directory is not shared: the run's shared directory has no files of the ranks
        plan, source = self.assignment.plan, source_order(self.assignment, host)
        path = source["source"]["path"]
        order = {
            "patterns": list(plan.artifacts),
            "max_bytes": plan.artifacts_max_mib * 1024 * 1024,
            "user": user_of_ranks(host, link.place) if link.place is not None else None,
            **source,
        }
        try:
            answers = self._gang.ask(
                "fetch",
                "fetched",
                links=[link],
                deadline_s=longest_s(1, plan.artifacts_max_mib),
                silence_s=SILENCE_S,
                fields=lambda _: order,
            )
        except DdpPlayError as error:
            self.missing.append({"host": host.name, "path": path, "why": error.message})
            return f"not collected: {error.message}"
        answer = answers[link.name]
        missing, artifacts = rows_of(link, answer)
        self.missing += missing
        if artifacts:
            write_json(self.assignment.paths.artifacts_manifest, artifacts)
        return "not all of it could be collected" if missing else ""

    def _remove(self, host: HostPlan, link: Link) -> None:
        paths = run_paths(host, self.assignment.run_key)
        try:
            answers = self._gang.ask(
                "clean", "cleaned", links=[link], deadline_s=CLEAN_S, fields=lambda _: {"run_paths": paths}
            )
        except DdpPlayError as error:
            self._list_uncollected(host, f"collected, but not removed: {error.message}")
            return
        if answers[link.name]["left"]:
            self.left[host.name] = list(answers[link.name]["left"])

    def _list_uncollected(self, host: HostPlan, why: str) -> None:
        rows = [f"{path}: {why}; copy what you need from it, then remove it" for path in self._paths(host)]
        self.left[host.name] = rows

    def _paths(self, host: HostPlan) -> list[str]:
        return run_paths(host, self.assignment.run_key)
