"""What hosts answer in a check: their readings, their clocks, and what they see of each other. Over open channels."""

from __future__ import annotations

import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_play.checks.burn_in import BurnIn
from ddp_play.checks.burn_in_progress import keep_round_of
from ddp_play.checks.dcgm_run import diagnose
from ddp_play.checks.fleet import BURN_IN, fleet_from_json
from ddp_play.checks.job_containers import JobContainers, containers_of
from ddp_play.checks.load_hosts import hosts_for_load
from ddp_play.checks.pair_exchange import MatrixSettings, measure_matrix
from ddp_play.checks.pair_samples import PairEnd
from ddp_play.checks.peer_addresses import PeerNetwork, among, network_between
from ddp_play.checks.peer_orders import ANSWER_S, listen, reach, within
from ddp_play.checks.time_budget import (
    CONTAINER_LEAST_S,
    MATRIX_LEAST_S,
    NO_LIMIT,
    REACH_LEAST_S,
    READ_LEAST_S,
    TimeBudget,
)
from ddp_play.checks.torch_load import load_of
from ddp_play.errors import Interrupted
from ddp_play.guard.protocol import UNREADABLE
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.run.host_channel import ProcessChannel, wait_any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ddp_play.checks.check_scope import CheckScope
    from ddp_play.checks.fleet import Fleet
    from ddp_play.checks.job_terms import JobTerms
    from ddp_play.checks.pair_samples import Pair
    from ddp_play.checks.torch_load import TorchLoad
    from ddp_play.planning.host_facts import HostFacts

CLOCK_ROUNDS = 3
MAX_ANSWER = 1 << 20  # of a host
NOBODY = "ddp-play-check.invalid"  # no name service has it: its answer shows how fast one is (RFC 2606)
CLOCK_S, READ_S, END_S = 10.0, 30.0, 20.0
# Orders that end something, and the seconds that they have also when the time of the check is over.
LAST, LAST_S = ("check_end", "pair_end", "container_end"), 1.0
WHOLE = ("check_torch", "check_dcgm")  # a load needs its whole time, as a round of pairs does
TELL_S = 8.0  # a host ends a channel after half a minute of silence


@dataclass
class _Asked:
    """A host of which an answer is expected."""

    channel: ProcessChannel
    sent: float
    header: dict[str, Any] | None = None
    payload: bytes = b""
    received: float = 0.0


@dataclass
class Exchange:
    """Orders to all hosts at once. A host that does not answer is in `lost`, with the reason, and is asked no more."""

    channels: dict[str, ProcessChannel]
    lost: dict[str, str] = field(default_factory=dict)
    budget: TimeBudget = NO_LIMIT
    is_late: bool = False  # something was left out for want of time
    read_at: float = 0.0  # when counters were read
    parent: int = field(default_factory=os.getppid)  # without it nobody wants the answers
    told: float = 0.0  # when hosts that rest were told that this controller is there

    def has_time(self, least_s: float) -> bool:
        """Is there time for what needs at least so many seconds? If not, `is_late` is set."""
        self.is_late |= self.budget.left_s() < least_s
        return self.budget.left_s() >= least_s

    def ask(
        self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float
    ) -> dict[str, tuple[dict[str, Any], bytes, float, float]]:
        """By host: header, payload, and when the order was sent and its answer received."""
        asked = {}
        for host, values in fields.items():
            # a host that was too slow for --within still has to give back what it holds
            if host in self.channels and (host not in self.lost or kind in LAST):
                asked[host] = _Asked(self.channels[host], time.time())
                self.channels[host].send(kind, **values)
                self.channels[host].pump()
        cap = self.budget.part_s if kind.startswith("check_") and kind not in WHOLE else self.budget.capped
        limit_s = max(cap(limit_s), LAST_S if kind in LAST else 0.0)
        until = time.monotonic() + limit_s
        while (waiting := self._waiting(asked)) and time.monotonic() < until:
            if os.getppid() != self.parent:
                raise Interrupted("the process that wanted the answers of the hosts has ended")
            self._keep_open(set(self.channels) - self.lost.keys() - set(waiting))
            wait_any([asked[host].channel for host in waiting], min(0.2, max(0.0, until - time.monotonic())))
            for host in waiting:
                self._take(kind, host, asked[host])
        for host in self._waiting(asked):
            because = " (--within)" if self.budget.is_limited else ""
            self.lose(host, f"no answer to {kind} within {limit_s:.3g} s{because}")
        return {
            host: (row.header, row.payload, row.sent, row.received)
            for host, row in asked.items()
            if row.header is not None
        }

    def _keep_open(self, resting: Collection[str]) -> None:
        """Say something to hosts that have no order: they end a channel on which nothing comes."""
        if time.monotonic() - self.told < TELL_S:
            return
        self.told = time.monotonic()
        for host in resting:
            self.channels[host].send("check_clock")
            self.channels[host].pump()

    def _waiting(self, asked: dict[str, _Asked]) -> list[str]:
        return [host for host, row in asked.items() if row.header is None and host not in self.lost]

    def _take(self, kind: str, host: str, row: _Asked) -> None:
        for header, payload in row.channel.receive():
            if header.get("t") == kind:
                row.header, row.payload, row.received = header, payload, time.time()
            elif header.get("t") == "refused":
                self.lose(host, f"{kind}: {str(header.get('message'))[:400]}")
            elif header.get("t") == UNREADABLE:
                self.lose(host, f"it sent {header.get('why')}; is the program on this host ours?")
        if row.header is None and row.channel.broken:
            self.lose(host, f"the connection ended during {kind}: {row.channel.broken}")

    def lose(self, host: str, why: str) -> None:
        """Ask this host no more."""
        self.lost.setdefault(host, why)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        """By host, the JSON object that it answers."""
        found = {}
        for host, (_, payload, _, _) in self.ask(kind, fields, limit_s=limit_s).items():
            try:
                document = json.loads(payload) if len(payload) <= MAX_ANSWER else None
            except (ValueError, RecursionError):
                document = None
            if isinstance(document, dict):
                found[host] = document
            else:
                self.lose(host, f"its answer to {kind} is no JSON object of at most {MAX_ANSWER >> 20} MiB")
        return found

    def clocks(self, hosts: list[str]) -> dict[str, dict[str, float]]:
        """By host, its clock against this one in seconds, and the round trip of that answer: the shortest of some."""
        best: dict[str, dict[str, float]] = {}
        for _ in range(CLOCK_ROUNDS):
            for host, (header, _, sent, received) in self.ask(
                "check_clock", {host: {} for host in hosts}, limit_s=CLOCK_S
            ).items():
                clock, trip_s = header.get("clock"), received - sent
                if isinstance(clock, float) and trip_s < best.get(host, {"trip_s": float("inf")})["trip_s"]:
                    best[host] = {"offset_s": clock - (sent + received) / 2, "trip_s": trip_s}
        return best

    def cap_s(self, limit_s: float) -> float:
        """The limit of a program on the hosts, or what is left of the time for it if that is less."""
        return min(limit_s, self.budget.left_s() - 4 * ANSWER_S)

    def close(self) -> None:
        """End all channels."""
        for channel in self.channels.values():
            channel.send("bye")
            channel.pump()
            channel.close()


def exchange(
    rows: Mapping[str, dict[str, Any]],
    channels: dict[str, ProcessChannel],
    scope: CheckScope,
    *,
    records: Callable[[Fleet], Mapping[Pair, float]],
) -> dict[str, Any]:
    """The document of a check: by host its facts or problem and all that it answered, and the network between them.

    The matrix takes about three seconds a host up to 16. `records`: Mb/s by direction, which it is compared with.
    """
    facts = {host: facts_from_json(host, row["facts"]) for host, row in rows.items() if "facts" in row}
    talk = Exchange(channels, budget=scope.budget)
    containers = containers_of(talk, scope.plan)
    found: dict[str, Any] = {"matrix": None, "torch": None}
    try:
        answers, network = _converse(talk, facts, scope.terms, containers)
        found |= {"network": asdict(network), "hosts": _hosts(rows, answers, talk.lost)}
        if scope.has_matrix:
            found["matrix"] = _matrix(talk, network, scope, lambda: records(fleet_from_json(found)))
            free = hosts_for_load(talk, facts, answers.get("readings", {}), containers)
            answers["readings"] = free.readings  # with who uses a host by now
            load = load_of(
                talk, free.pythons, network, scope.terms.port_range, matrix=found["matrix"], containers=containers
            )
            found["torch"] = load.measure() if free.pythons else None
            answers["dcgm"] = diagnose(talk, facts, free.diagnosed, scope.level)
            if free.pythons and scope.level == BURN_IN:
                found["burn_in"] = _burn_in(load, scope, partial(_document, found, rows, answers, talk.lost))
        if containers is not None:
            containers.end()
        if scope.has_matrix and any(host.rdma for host in facts.values()):
            found["counted_s"], answers["counters"] = time.monotonic() - talk.read_at, _again(talk, "counters", facts)
        # nothing that is judged comes after this
        lost, found["late"] = dict(talk.lost), scope.budget.reason if talk.is_late else ""
        if scope.outputs:
            answers |= _for_a_ticket(talk, facts, answers)
    finally:
        talk.close()
    return _document(found, rows, answers, lost)


def _for_a_ticket(talk: Exchange, hosts: Collection[str], answers: Collection[str]) -> dict[str, dict[str, Any]]:
    """Counters after the measurements, unless they are judged, and outputs; what has no time left is missing."""
    wanted = [name for name in ("counters", "outputs") if name not in answers]
    return {name: _again(talk, name, hosts) for name in wanted if talk.budget.left_s() > 2 * ANSWER_S}


def _again(talk: Exchange, name: str, hosts: Collection[str]) -> dict[str, Any]:
    """By host, what it reads now."""
    return talk.documents(f"check_{name}", {host: within(talk) for host in hosts}, limit_s=READ_S)


def _document(
    found: Mapping[str, Any],
    rows: Mapping[str, dict[str, Any]],
    answers: Mapping[str, dict[str, Any]],
    lost: Mapping[str, str],
) -> dict[str, Any]:
    return {**found, "hosts": _hosts(rows, answers, lost)}


def _hosts(
    rows: Mapping[str, dict[str, Any]], answers: Mapping[str, dict[str, Any]], lost: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """By host, all that is known of it."""
    hosts: dict[str, dict[str, Any]] = {}
    for host, row in rows.items():
        hosts[host] = {name: row[name] for name in ("facts", "problem") if name in row}
        hosts[host] |= {name: found[host] for name, found in answers.items() if host in found}
        if host in lost:
            hosts[host]["lost"] = lost[host]
    return hosts


def _burn_in(load: TorchLoad, scope: CheckScope, so_far: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return BurnIn(load, partial(keep_round_of, scope.progress, so_far)).run()


def _matrix(
    talk: Exchange, network: PeerNetwork, scope: CheckScope, records: Callable[[], Mapping[Pair, float]]
) -> dict[str, Any] | None:
    if not talk.has_time(MATRIX_LEAST_S):
        return None
    settings = MatrixSettings(records={} if scope.record or scope.terms.network else records(), budget=scope.budget)
    interfaces = dict(network.interfaces)
    ends = {
        host: PairEnd(host, address, interfaces[host]) for host, address in network.addresses if host not in talk.lost
    }
    return measure_matrix(talk, ends, settings).to_json() if len(ends) > 1 else None


def _converse(
    talk: Exchange, facts: Mapping[str, HostFacts], terms: JobTerms, containers: JobContainers | None
) -> tuple[dict[str, dict[str, Any]], PeerNetwork]:
    """All orders, in turn. Tokens and open ports are taken back at the end, whatever happened."""
    hosts = list(facts)
    word = secrets.token_hex(8)
    tokens = {name: [host.shared.path, word, name] for name, host in facts.items() if host.shared}
    answers: dict[str, dict[str, Any]] = {"clock": talk.clocks(hosts) if talk.has_time(ANSWER_S) else {}}
    names = [NOBODY, *sorted({host.hostname for host in facts.values()})]
    common = {"names": names, "port_range": list(terms.port_range), **within(talk)}
    try:
        if talk.has_time(READ_LEAST_S):
            orders = {host: {**common, "token": tokens.get(host)} for host in hosts}
            answers["readings"] = talk.documents("check_read", orders, limit_s=READ_S)
            talk.read_at = time.monotonic()
        left = tuple(facts[host] for host in hosts if host not in talk.lost)
        network = among(terms.network, left) if terms.network else network_between(left)
        if talk.has_time(REACH_LEAST_S):
            listening = listen(talk, network, terms)
            answers["reached"] = reach(talk, facts, network, (listening, tokens))
    finally:
        ends = {host: {"token": tokens.get(host)} for host in hosts}
        answers["ended"] = talk.documents("check_end", ends, limit_s=END_S)
    # runs have their ports back by now: the engine may take a minute
    if containers is not None and talk.has_time(CONTAINER_LEAST_S):
        answers["container"] = containers.read(names[1:])
    return answers, network
