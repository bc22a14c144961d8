"""Preparation of all hosts (port, source, containers, guards), network probes, then the start signal.

The start signal is sent when all hosts are prepared. If preparation fails, all hosts are cleaned up.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play import __version__
from ddp_play.bundle.controller_user import user_name
from ddp_play.bundle.disk_space import unless_full
from ddp_play.bundle.paths import read_json, write_json, write_text
from ddp_play.errors import Busy, DdpPlayError, SlotsTaken, UsageError
from ddp_play.planning.apptainer_images import is_pulled
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.run import attempt_progress
from ddp_play.run.collect_and_clean import CLEAN_S
from ddp_play.run.host_spec import Launch, only_copy_on_hosts, run_paths, shared_runs
from ddp_play.run.job_check import read_hosts, refuse_unfit
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.link import SILENCE_S, Link
from ddp_play.run.prestart_probes import probe_lock, probe_network
from ddp_play.run.run_hooks import START
from ddp_play.run.slot_wait import SlotQueue
from ddp_play.run.source_sending import SourceSender, unpacking_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.journal import Journal
    from ddp_play.bundle.writer import Bundle
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.host_links import Gang
    from ddp_play.run.host_spec import HostPlace
    from ddp_play.run.source_snapshot import Snapshot
    from ddp_play.run.stop_requests import StopRequests

PREPARE_S = 180.0
PULL_S = 3600.0
PORT_TRIES = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of the preparation: the port leased on the head, and the run's directory on each host."""

    port: int
    directories: Mapping[str, str]


class Starter:
    """Prepares the hosts of one attempt, probes their network and sends the start signal."""

    def __init__(self, assignment: Assignment, gang: Gang, bundle: Bundle, journal: Journal) -> None:
        self.assignment = assignment
        self.plan = assignment.plan
        self.paths = assignment.paths
        self.gang = gang
        self.bundle = bundle
        self.journal = journal
        self.waiting = assignment.waiting
        self.prepared = False  # was `prepare` sent to any host?
        self.signalled = False  # was the start signal sent to any host?
        self.kept: dict[str, tuple[str, ...]] = {}  # host -> working directories that `abandon` has kept

    def claim(self) -> None:
        """Reserve the run's name on all hosts. NameTaken if another run on a host has it."""
        if self.assignment.continues:
            return  # this run has the name since its first attempt, also while its hosts are clean between two attempts
        hosts = {host.name: host for host in self.plan.hosts}
        self.gang.ask("claim", "claimed", deadline_s=30, fields=lambda link: {"shared": shared_runs(hosts[link.name])})

    def prepare(self) -> Prepared:
        """Check the hosts, lease a port on the head and prepare all. If the port is taken meanwhile, try another."""
        self.check()
        avoid = self._ports_of_before()
        most = len(avoid) + PORT_TRIES
        while True:
            port = self._lease_port(avoid)
            try:
                return self._prepare_with(port)
            except SlotsTaken:
                raise
            except Busy:  # another program has taken the port after the lease
                avoid.append(port)
                if len(avoid) == most:
                    raise
                self._clean(self.gang.links, remove_shared=not self.assignment.continues)

    def _ports_of_before(self) -> list[int]:
        """The last attempt's port, if there are others: a rank of it that is late must find nobody there."""
        first, last = self.plan.port_range
        known = read_json(self.paths.run).get("head_port") if self.assignment.continues else None
        return [int(known)] if known and first < last else []

    def check(self) -> None:
        """Check what ranks need on the hosts, before anything is started there. HostUnfit names those that lack it.

        Hosts that had the last attempt of this run are not asked again, unless others join them.
        """
        judge, names = self.assignment.judge, {host.name for host in self.plan.hosts}
        if judge is None or self.plan.check == "none" or names <= self.assignment.last_hosts:
            return
        known = read_json(self.paths.fleet).get("facts") or {}
        facts = {name: facts_from_json(name, known[name]) for name in sorted(names & known.keys())}
        began = time.monotonic()
        judged = judge(self.plan, facts, read_hosts(self.gang, self.plan, facts))
        for text in judged.warnings:
            self.journal.emit("warning", message=text)
        self.journal.emit("checked", refused=len(judged.refused), duration_s=round(time.monotonic() - began, 3))
        refuse_unfit(judged)

    def wait_for_slots(self, stop_requests: StopRequests) -> None:
        """If requested, wait until it is this run's turn on all hosts. A restart does not wait again."""
        if self.waiting is None or self.assignment.continues:
            return
        queue = SlotQueue(self.assignment, self.gang, self.bundle, self.journal, stop_requests)
        self.waiting = queue.join(self.waiting)
        if queue.wait(self.waiting):
            self.claim()  # another run may have taken the name meanwhile

    def _lease_port(self, avoid: list[int]) -> int:
        head = self.gang.link(self.plan.head)
        fields = {"range": list(self.plan.port_range), "avoid": avoid}
        answer = self.gang.ask("lease_port", "leased", links=[head], deadline_s=30, fields=lambda _: fields)
        return int(answer[head.name]["port"])

    def _prepare_with(self, port: int) -> Prepared:
        launch = self._launch(port)
        self.prepared = True
        hosts = {host.name: host for host in self.plan.hosts}
        places = {link.name: _place_of(link) for link in self.gang.links}
        specs = {name: launch.host_spec(host, places[name]) for name, host in hosts.items()}
        for spec in specs.values():
            for row in spec["ranks"]:
                write_text(self.paths.env(row["rank"]), row["env_file"])
        if self.assignment.snapshot is not None and not (self.plan.source_shared and self.assignment.continues):
            self._send_source(
                self.assignment.snapshot, [link for link in self.gang.links if hosts[link.name].sends_source]
            )
        self.gang.ask(
            "prepare",
            "prepared",
            deadline_s=(PULL_S if self._may_pull() else PREPARE_S) + unpacking_s(self.assignment.snapshot),
            silence_s=SILENCE_S,
            fields=lambda link: {
                "spec": specs[link.name],
                "secrets": self.assignment.secrets,
                "registry": self.assignment.registry,
            },
            withdraw=True,
        )
        prepared = Prepared(port, {name: place.directory for name, place in places.items()})
        self.bundle.update_run(head_port=port, directories=prepared.directories)
        self.journal.emit("prepared", port=port, hosts=[link.name for link in self.gang.links])
        return prepared

    def _may_pull(self) -> bool:
        """Whether hosts may have to pull the image first, or to unpack it."""
        docker = self.plan.runtime == "docker" and not self.plan.image_id
        return (
            docker or self.plan.runtime == "pyxis" or (self.plan.runtime == "apptainer" and is_pulled(self.plan.image))
        )

    def _launch(self, port: int) -> Launch:
        return Launch(
            plan=self.plan,
            run_id=self.paths.run_id,
            attempt=self.assignment.attempt,
            port=port,
            owner=user_name(),
            created=time.time(),
            snapshot=self.assignment.snapshot,
            controller=socket.gethostname(),
            token=self.assignment.token,
            continues=self.assignment.continues,
            last_hosts=self.assignment.last_hosts,
            run_age_s=max(0.0, time.time() - float(read_json(self.paths.run).get("created") or 0)),
            queued=self.waiting is not None,
            version=__version__,
        )

    def _send_source(self, snapshot: Snapshot, links: list[Link]) -> None:
        began, sender = time.monotonic(), SourceSender(self.gang, snapshot)
        sender.send(links)
        spent_s = round(time.monotonic() - began, 3)
        # Another attempt, or one whose port was taken meanwhile, has sent it too.
        before = int(read_json(self.paths.run).get("source_bytes_sent") or 0)
        self.bundle.update_run(source_bytes_sent=before + sender.num_bytes)
        self.journal.emit(
            "source_sent",
            bytes=sender.num_bytes,
            archive_bytes=len(snapshot.archive),
            hosts=len(links),
            duration_s=spent_s,
        )

    def probe(self, prepared: Prepared) -> None:
        """Test connections between the hosts, and locks on the shared directory, before ranks start."""
        probe_lock(self.gang, self.plan)
        if self.plan.probe and self.plan.fabric != "local" and len(self.gang.links) > 1:
            probe_network(self.gang, self.plan, prepared.port)

    def go(self) -> None:
        """Send the start signal to all hosts at once."""
        if not self.assignment.continues:
            attempt_progress.note_start(self.gang, self.plan, self.bundle)
        self.signalled = True
        answers = self.gang.ask("go", "going", deadline_s=20, fields=lambda _: {"by": self.paths.run_id})
        before = {name: answer.get("counters") or {} for name, answer in answers.items()}
        # counters of the first attempt stay; a later one adds those of its new hosts
        with unless_full():
            write_json(self.paths.counters, {**before, **read_json(self.paths.counters)})
        self.bundle.last_data = time.monotonic()
        self.bundle.update_run(started=time.time())
        self.journal.emit("started", world_size=self.plan.world_size)
        if not self.assignment.continues:
            self.assignment.hooks.tell(START, self.paths)

    def abandon(self, error: DdpPlayError) -> dict[str, Link]:
        """Clean up after an attempt that did not start, because of `error`, whose hint may name what is left to do.

        Returns the hosts that did not confirm a complete cleanup.

        Directories that ranks of an earlier attempt, or of this one, may have written to are kept: that which all hosts
        share, and (`kept`) working directories with the only copy of artifacts.
        """
        if not self.prepared:
            self.gang.close()
            return {}
        for link in self.gang.links:
            link.replies.pop("cleaned", None)  # of an earlier try of this attempt
        reachable = [link for link in self.gang.links if link.place is not None and link.connected]
        with contextlib.suppress(DdpPlayError):
            self._clean(reachable, remove_shared=not (self.assignment.continues or self.signalled))
        self.gang.close()
        replies = {link.name: link.replies.get("cleaned", {}) for link in self.gang.links}
        self.kept = {name: tuple(reply["kept"]) for name, reply in replies.items() if reply.get("kept")}
        unconfirmed = {link.name: link for link in self.gang.links if replies[link.name].get("left", True)}
        if unconfirmed and not (self.signalled or error.hint):
            names = ", ".join(sorted(unconfirmed))
            left = LeftFiles.of(self.assignment.paths.run_id, self.assignment.routes)
            removes = left.then("ddp-play gc -i INVENTORY --yes removes what is left")
            error.hint = f"{names}: cleanup not confirmed; {removes}"
        return unconfirmed

    def _clean(self, links: list[Link], *, remove_shared: bool) -> None:
        hosts = {host.name: host for host in self.plan.hosts}
        first = links[0].name if links and remove_shared else ""
        keep_src = self.signalled and only_copy_on_hosts(self.plan)

        def order(link: Link) -> dict[str, Any]:
            paths = run_paths(hosts[link.name], self.assignment.run_key) if link.name == first else []
            return {"run_paths": paths, "keep_src": keep_src}

        self.gang.ask("clean", "cleaned", links=links, deadline_s=CLEAN_S, silence_s=SILENCE_S, fields=order)


def _place_of(link: Link) -> HostPlace:
    if link.place is None:
        raise UsageError(f"no channel to {link.name} is open")
    return link.place
