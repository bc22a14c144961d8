"""Host side of the controller's channel: executes orders and sends the guard's files. Owns no rank.

When the connection breaks this process ends. The guard goes on, and the next channel continues from the offsets that
the controller has.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from typing import IO, Any, List, Optional

from . import (
    allocation_step,
    attempt_preparation,
    fact_gathering,
    hang_evidence,
    interfaces,
    leases,
    leftovers,
    processes,
    progress_files,
    run_id_conflicts,
    slot_queue,
)
from .answer_limit import AnswerLimit
from .artifact_collection import fetch
from .flight_recorder_analysis import Dumps
from .format_check import refuse_unknown
from .guard_link import GuardLink
from .heartbeats import beating
from .late_orders import LateOrders
from .log_following import Following
from .order_stream import OrderStream
from .orders import GO, STOP, STOP_NOW
from .prestart_checks import PrestartChecks
from .protocol import MAGIC, PROTOCOL, Header, encode, run_key, split_run_key, write_all
from .refusal import Refused
from .run_directory import FROZEN, HostRun, read_json
from .source_orders import SourceOrders

# A live controller sends a heartbeat every second.
CONTROLLER_SILENCE_S = 30.0


class Channel:
    """One connection of the controller, about one attempt on this host."""

    def __init__(self) -> None:
        self.orders = OrderStream(0)
        self.place: Optional[HostRun] = None
        self.guard: Optional[GuardLink] = None
        self.following = Following(self.send)
        self.lease: Optional[leases.PortLease] = None
        self.queue = slot_queue.QueuePlace()
        self.name: Optional[leases.Lease] = None
        self.checks = PrestartChecks(self.send)
        self.late = LateOrders(self.send)
        self.dumps = Dumps()
        self.source = SourceOrders(self.send, self._attended_place)
        self.attending: Optional[IO[Any]] = None
        self.open = True

    def send(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        """Send one frame to the controller. Raises OSError when the connection is broken."""
        write_all(1, encode(kind, payload, **fields))

    def run(self) -> None:
        """Execute orders until the controller sends `bye`, closes the connection or is silent for too long."""
        write_all(1, MAGIC)
        heard = time.monotonic()
        while self.open:
            busy = self.following.turn()
            news = [] if self.guard is None else self.guard.descriptors()
            files, pause_s = self.following.wait()
            ready, _, _ = select.select([0, *news, *files], [], [], 0.0 if busy else pause_s)
            if set(files) & set(ready):
                self.following.woken()
            if 0 in ready:
                heard = time.monotonic()  # heartbeats that arrived during a long order are still to be read
                if not self.orders.receive():
                    return
                while self.orders:
                    self._obey(*self.orders.take())
                heard = time.monotonic()
            elif time.monotonic() - heard > CONTROLLER_SILENCE_S:
                return  # the controller or the network is lost, and the connection would stay half open

    def _obey(self, header: Header, payload: bytes) -> None:
        name = "on_" + str(header["t"])
        handler = getattr(self, name, getattr(self.checks, name, getattr(self.source, name, self._unknown)))
        try:
            handler(header, payload)
        except Refused as refused:
            self.send("refused", order=header["t"], message=str(refused), error=refused.kind, hint=refused.hint)
        except OSError as error:
            self.send("refused", order=header["t"], message=str(error), error="host_not_ready", hint="")

    def _unknown(self, header: Header, _payload: bytes) -> None:
        self.late.obey(header)

    def _the_place(self) -> HostRun:
        if self.place is None:
            raise Refused("no run was opened on this channel", kind="internal")
        return self.place

    def _the_guard(self) -> GuardLink:
        if self.guard is None:
            raise Refused("no run was opened on this channel", kind="internal")
        return self.guard

    def _attend(self, place: HostRun) -> None:
        if self.attending is None:
            self.attending = place.attend()

    def _attended_place(self) -> HostRun:
        place = self._the_place()
        self._attend(place)
        return place

    # -- orders --------------------------------------------------------------------------------------
    def on_facts(self, header: Header, _payload: bytes) -> None:
        """Answer the host facts. At the limit the program ends with a message that names the step."""
        wanted = header["wanted"]
        limit = AnswerLimit("facts", wanted.get("limit_s") or 0)
        facts = fact_gathering.collect(wanted, limit)
        limit.met()
        self.send("facts", json.dumps(facts).encode())

    def on_open(self, header: Header, _payload: bytes) -> None:
        """Select the attempt; answer its directories and its state. Refuses what it cannot read of other versions."""
        place = HostRun.at(run_key(header["run"], header.get("token") or ""), int(header["attempt"]), header["host"])
        guard = GuardLink(place)
        state, alive = guard.look()
        refuse_unknown(header, place, state)
        self.place, self.guard = place, guard
        if place.root.is_dir():
            with contextlib.suppress(OSError):  # a read-only disk: nobody can clean up there at the same time
                self._attend(place)
        self.send(
            "opened",
            key=place.run_key,
            protocol=PROTOCOL,
            dir=str(place.root),
            has_files=place.root.is_dir(),
            has_logs=place.logs.is_dir(),
            secrets=str(place.secrets),
            clock=time.time(),
            uptime=processes.uptime_s(),
            state=state,
            guard_alive=alive,
            uid=os.geteuid(),
        )

    def on_claim(self, header: Header, _payload: bytes) -> None:
        """Refuse, before anything is changed, if another run of the same name has files or a guard here."""
        key = self._the_place().run_key
        run_id, token = split_run_key(key)
        shared = list(header.get("shared", ()))
        run_id_conflicts.check(run_id, token, shared)
        self.name = self.name or run_id_conflicts.hold_name(key)  # until this process ends: a guard is there then
        run_id_conflicts.check(run_id, token, shared)  # one that was started since the first check
        self.send("claimed")

    def on_beat(self, header: Header, _payload: bytes) -> None:
        """Renew the lease and answer. `seen`: newest `uptime` of this host that the controller knew.

        Before `open` it only keeps this channel open.
        """
        guard, seen = self.guard, header.get("seen")
        if guard is not None and seen is not None:
            guard.renew(float(seen))
        state, alive = guard.look() if guard is not None else ({}, False)
        self._beat(header.get("id", 0), guard_gone=_is_gone(state, alive=alive))

    def _beat(self, number: int = 0, *, guard_gone: bool = False) -> None:
        self.send("beat", id=number, clock=time.time(), uptime=processes.uptime_s(), guard_gone=guard_gone)

    def on_lease_port(self, header: Header, _payload: bytes) -> None:
        """Lease a rendezvous port for this attempt."""
        first, last = header["range"]
        self.lease = leases.lease_port(int(first), int(last), list(header.get("avoid", [])))
        if self.lease is None:
            raise Refused(leases.ports_problem(int(first), int(last)), kind="busy", hint="widen ddp_job_port_range")
        self.send("leased", port=self.lease.port)

    def on_queue(self, header: Header, _payload: bytes) -> None:
        """Keep the run's place in the queue for slots, and answer whether it is its turn."""
        self.send("queued", **self.queue.look(slot_queue.ticket_of(header, self._the_place().run_key)))

    def on_prepare(self, header: Header, _payload: bytes) -> None:
        """Prepare the attempt, with heartbeats: everything but the start of the ranks."""
        if self.lease is not None:  # the guard takes it over
            self.lease.handle.close()
            self.lease = None
        place = self._attended_place()
        secrets, registry = header.get("secrets") or {}, header.get("registry") or {}
        with beating(self._beat):
            state = attempt_preparation.prepare(
                place, header["spec"], secrets, registry, withdrawn=self.orders.withdrawn
            )
        self.queue.leave()  # the guard has the slots
        self.send("prepared", guard_pid=state["guard_pid"])

    def on_withdraw(self, _header: Header, _payload: bytes) -> None:
        """Do nothing: the order that was withdrawn has already been executed."""

    def on_go(self, header: Header, _payload: bytes) -> None:
        """Start the ranks; answer the traffic counters from before the start."""
        before = interfaces.counters()
        self.checks.close_listeners()
        self._the_guard().order(GO, {"by": header.get("by", "")})
        self.send("going", counters=before)

    def on_follow(self, header: Header, _payload: bytes) -> None:
        """Send logs, metrics and NCCL's debug output from these offsets on, and the state whenever it changes."""
        self.following.begin(self._the_place(), header, self._the_guard())

    def on_pause(self, _header: Header, _payload: bytes) -> None:
        """Send no logs and metrics until the next `follow`: the disk of the controller is full."""
        self.following.pause()

    def on_stop(self, header: Header, _payload: bytes) -> None:
        """Pass on the order to stop, with a grace period or (`now`) without."""
        order = {
            "reason": header["reason"],
            "signal": header.get("signal"),
            "grace_s": header.get("grace_s", 0),
        }
        self._the_guard().order(STOP_NOW if header.get("now") else STOP, order)
        self.send("stopping")

    def on_capture(self, _header: Header, _payload: bytes) -> None:
        """Collect evidence of every rank of this host and freeze it, before a hung gang is ended."""
        guard = self._the_guard()
        guard.order(FROZEN)
        seen, texts = hang_evidence.capture(guard.look()[0].get("ranks") or {})
        for rank, text in texts.items():
            self.send("file", text.encode(), file="proc", rank=int(rank), last=True)
        self.send("captured", ranks=seen)

    def on_drain(self, header: Header, _payload: bytes) -> None:
        """Answer once all followed files have been sent, with the traffic counters."""
        self.following.drain(int(header.get("id", 0)))

    def on_progress(self, _header: Header, _payload: bytes) -> None:
        """Answer the newest file that the job names as its progress."""
        self.send("progressed", newest=progress_files.newest(read_json(self._the_place().spec) or {}))

    def on_fetch(self, header: Header, _payload: bytes) -> None:
        """Send results and artifacts, and heartbeats while nothing is sent."""
        state, alive = self._the_guard().look()  # before files are read with the rights of the ranks' user
        gone = _is_gone(state, alive=alive)
        self.send("fetched", **fetch(self._the_place(), header, self.send, lambda: self._beat(guard_gone=gone)))

    def on_dump(self, header: Header, payload: bytes) -> None:
        """Append a piece to the flight recorder dump of a rank, which may have run on another host."""
        self.dumps.receive(self._the_place(), int(header["rank"]), payload)

    def on_analyse(self, _header: Header, _payload: bytes) -> None:
        """Answer what torch's fr_trace prints about these dumps."""
        place = self._the_place()
        self.send("analysed", text=self.dumps.analyse(place, read_json(place.spec) or {}))

    def on_end(self, _header: Header, _payload: bytes) -> None:
        """Kill ranks that outlived their guard; answer those that did not end."""
        self.send("ended", left=leftovers.end_ranks(self._the_place()))

    def on_clean(self, header: Header, _payload: bytes) -> None:
        """Remove all of this attempt from this host. With `stay` the host counts as busy until this channel closes."""
        self.following.end()
        place, keep_src, keep = self._the_place(), bool(header.get("keep_src")), header.get("keep") or ()
        found = leftovers.clean(place, keep_src=keep_src, keep=keep, run_paths=header.get("run_paths"))
        if self.attending is not None and not header.get("stay"):
            self.attending.close()
            self.attending = None
        self.send("cleaned", left=found.left, alive=found.alive, kept=leftovers.kept(place, keep) if keep_src else [])

    def on_bye(self, _header: Header, _payload: bytes) -> None:
        """End this process: the controller is done."""
        self.open = False


def _is_gone(state: Header, *, alive: bool) -> bool:
    return bool(state) and not alive and state["phase"] != "ended"


def main(_arguments: List[str]) -> None:
    """Entry point of the verb `channel`."""
    channel = Channel()
    with allocation_step.stay(lambda: channel.place):
        try:
            channel.run()
        finally:
            channel.late.hang_up()
