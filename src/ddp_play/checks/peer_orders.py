"""Orders with which the hosts of a check test their ways to one another: ports, sizes of packets, shared files."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.checks.host_orders import HostOrders, lose_for_answer
from ddp_play.checks.peer_addresses import sampled_ports

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.checks.job_terms import JobTerms
    from ddp_play.checks.peer_addresses import PeerNetwork
    from ddp_play.checks.time_budget import TimeBudget
    from ddp_play.planning.host_facts import HostFacts

MAX_PORTS = 64  # of a host
# Seconds for a connection; a lost packet is sent again after one and three seconds.
CONNECT_S, LEAST_CONNECT_S = 4.0, 2.0
LISTEN_S, REACH_S = 20.0, 30.0
ANSWER_S = 0.5  # for an answer to arrive after its readings have ended


class Talks(HostOrders, Protocol):
    """Orders within the time of the check."""

    budget: TimeBudget


def within(talk: Talks) -> dict[str, float]:
    """The field of an order that tells how long its readings may take; none if the check has time."""
    return {"within_s": max(0.1, talk.budget.part_s() - ANSWER_S)} if talk.budget.is_limited else {}


def listen(talk: Talks, network: PeerNetwork, terms: JobTerms) -> dict[str, dict[str, Any]]:
    """Have the hosts listen; by host its address, its ports, and the word that it answers with."""
    ports = list(sampled_ports(*terms.port_range))
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
            lose_for_answer(talk, host, "check_listen")
            continue
        listening[host] = {**orders[host], "ports": numbers[:-1], "datagram_port": numbers[-1]}
    return listening


def reach(
    talk: Talks,
    facts: Mapping[str, HostFacts],
    network: PeerNetwork,
    there: tuple[dict[str, dict[str, Any]], dict[str, list[str]]],
) -> dict[str, Any]:
    """What each host sees of its peers: their ports, the size of packets that arrive, their tokens."""
    listening, tokens = there
    mtus = {host: _mtu(facts[host], link) for host, link in network.interfaces}
    # a shorter limit would take a packet that was sent again for a port that is closed
    limits = {"limit_s": min(CONNECT_S, max(LEAST_CONNECT_S, talk.budget.left_s() - 2 * ANSWER_S)), **within(talk)}
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
        orders[host] = {"peers": peers, "source": source, "token": token, "others": others, **limits}
    return talk.documents("check_reach", orders, limit_s=REACH_S)


def _mtu(host: HostFacts, interface: str) -> int:
    link = host.interface_named(interface)
    return link.mtu if link else 1500
