"""What hosts answer in a check: their readings, their clocks, and what they see of each other. Over open channels."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.checks.pair_exchange import measure_matrix
from ddp_play.checks.pair_samples import PairEnd
from ddp_play.checks.peer_addresses import PeerNetwork, network_between, sampled_ports
from ddp_play.guard.protocol import UNREADABLE
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.planning.job_values import PORT_RANGE
from ddp_play.run.host_channel import ProcessChannel, wait_any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.host_facts import HostFacts

CLOCK_ROUNDS = 3
MAX_ANSWER, MAX_PORTS = 1 << 20, 64  # of a host
NOBODY = "ddp-play-check.invalid"  # no name service has it: its answer shows how fast one is (RFC 2606)
# Seconds for a connection; a lost packet is sent again after one and three seconds.
CONNECT_S = 4.0
CLOCK_S, READ_S, LISTEN_S, REACH_S, END_S = 10.0, 30.0, 20.0, 30.0, 20.0


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

    def ask(
        self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float
    ) -> dict[str, tuple[dict[str, Any], bytes, float, float]]:
        """By host: header, payload, and when the order was sent and its answer received."""
        asked = {}
        for host, values in fields.items():
            if host in self.channels and host not in self.lost:
                asked[host] = _Asked(self.channels[host], time.time())
                self.channels[host].send(kind, **values)
        until = time.monotonic() + limit_s
        while (waiting := self._waiting(asked)) and time.monotonic() < until:
            wait_any([asked[host].channel for host in waiting], min(0.2, max(0.0, until - time.monotonic())))
            for host in waiting:
                self._take(kind, host, asked[host])
        for host in self._waiting(asked):
            self.lose(host, f"no answer to {kind} within {limit_s:g} s")
        return {
            host: (row.header, row.payload, row.sent, row.received)
            for host, row in asked.items()
            if row.header is not None
        }

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

    def close(self) -> None:
        """End all channels."""
        for channel in self.channels.values():
            channel.send("bye")
            channel.pump()
            channel.close()


def exchange(
    rows: Mapping[str, dict[str, Any]], channels: dict[str, ProcessChannel], *, matrix: bool = False
) -> dict[str, Any]:
    """The document of a check: by host its facts or problem and all that it answered, and the network between them.

    With `matrix` also the bandwidth, latency and loss between all pairs: about three seconds a host up to 16.
    """
    facts = {host: facts_from_json(host, row["facts"]) for host, row in rows.items() if "facts" in row}
    talk = Exchange(channels)
    try:
        answers, network = _converse(talk, facts)
        measured = _matrix(talk, network) if matrix else None
    finally:
        talk.close()
    hosts: dict[str, dict[str, Any]] = {}
    for host, row in rows.items():
        hosts[host] = {name: row[name] for name in ("facts", "problem") if name in row}
        hosts[host] |= {name: found[host] for name, found in answers.items() if host in found}
        if host in talk.lost:
            hosts[host]["lost"] = talk.lost[host]
    return {"hosts": hosts, "network": asdict(network), "matrix": measured}


def _matrix(talk: Exchange, network: PeerNetwork) -> dict[str, Any] | None:
    interfaces = dict(network.interfaces)
    ends = {
        host: PairEnd(host, address, interfaces[host]) for host, address in network.addresses if host not in talk.lost
    }
    return measure_matrix(talk, ends).to_json() if len(ends) > 1 else None


def _converse(talk: Exchange, facts: Mapping[str, HostFacts]) -> tuple[dict[str, dict[str, Any]], PeerNetwork]:
    """All orders, in turn. Tokens and open ports are taken back at the end, whatever happened."""
    hosts = list(facts)
    word = secrets.token_hex(8)
    tokens = {name: [host.shared.path, word, name] for name, host in facts.items() if host.shared}
    answers: dict[str, dict[str, Any]] = {"clock": talk.clocks(hosts)}
    names = [NOBODY, *sorted({host.hostname for host in facts.values()})]
    orders = {host: {"names": names, "port_range": list(PORT_RANGE), "token": tokens.get(host)} for host in hosts}
    try:
        answers["readings"] = talk.documents("check_read", orders, limit_s=READ_S)
        network = network_between(tuple(facts[host] for host in hosts if host not in talk.lost))
        listening = _listen(talk, network)
        answers["reached"] = _reach(talk, facts, network, (listening, tokens))
    finally:
        ends = {host: {"token": tokens.get(host)} for host in hosts}
        answers["ended"] = talk.documents("check_end", ends, limit_s=END_S)
    return answers, network


def _listen(talk: Exchange, network: PeerNetwork) -> dict[str, dict[str, Any]]:
    ports = list(sampled_ports(*PORT_RANGE))
    orders = {
        host: {"address": address, "ports": ports, "word": secrets.token_hex(16)} for host, address in network.addresses
    }
    listening = {}
    for host, row in talk.documents("check_listen", orders, limit_s=LISTEN_S).items():
        try:
            numbers = [int(port) for port in (*row["ports"], *row["chosen"], row["datagram_port"])]
        except (LookupError, TypeError, ValueError):
            numbers = []
        if not 0 < len(numbers) <= MAX_PORTS or not all(0 < port < 65536 for port in numbers):
            talk.lose(host, "its answer to check_listen is not what ddp-play's program sends")
            continue
        listening[host] = {**orders[host], "ports": numbers[:-1], "datagram_port": numbers[-1]}
    return listening


def _reach(
    talk: Exchange,
    facts: Mapping[str, HostFacts],
    network: PeerNetwork,
    there: tuple[dict[str, dict[str, Any]], dict[str, list[str]]],
) -> dict[str, Any]:
    """What each host sees of its peers: their ports, the size of packets that arrive, their tokens."""
    listening, tokens = there
    mtus = {host: _mtu(facts[host], link) for host, link in network.interfaces}
    orders = {}
    for host in facts:
        peers = [
            {"name": peer, "mtu": min(mtus[host], mtus[peer]), **row}
            for peer, row in listening.items()
            if peer != host and host in listening and facts[peer].machine != facts[host].machine
        ]
        others = [peer for peer in tokens if peer != host and peer not in talk.lost]
        source = listening[host]["address"] if host in listening else ""
        token = tokens.get(host) if others else None
        orders[host] = {"peers": peers, "source": source, "limit_s": CONNECT_S, "token": token, "others": others}
    return talk.documents("check_reach", orders, limit_s=REACH_S)


def _mtu(host: HostFacts, interface: str) -> int:
    link = host.interface_named(interface)
    return link.mtu if link else 1500
