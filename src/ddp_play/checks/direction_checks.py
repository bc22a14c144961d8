"""Checks of the ways between hosts, each direction for itself: ports of a job, and the size of packets. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet, NotRun, attempt, each, names, not_run, ok
from ddp_play.checks.network_checks import misrouted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

WARN, FAIL = Status.WARN, Status.FAIL
Direction = tuple[str, str]
MOST_TEXTS = 2


def ports(fleet: Fleet) -> Iterator[Finding]:
    """Ports of a job, from each host to each other, and who else listens on them."""
    yield from each(fleet, "job ports in use", _listeners)
    yield from _between(fleet, "ports", lambda host: _failed_ports(host, fleet.terms.port_range))


def _listeners(host: CheckedHost) -> Finding:
    rows = host.read("listeners")
    if not rows or any(run.get("guard_alive") for run in host.known.runs):
        return ok("none but those of runs")
    text = ", ".join(f"{port} by {who}" for port, who in sorted(rows.items())[:4])
    return Finding(
        "", WARN, text, "perhaps a rank of an ended job; runs take other ports",
        "end it if nobody needs it, or set ddp_job_port_range", limit="free", source="ddp_job_port_range",
        look="ss -tlnp",
    )  # fmt: skip


def _failed_ports(host: CheckedHost, port_range: tuple[int, int]) -> dict[str, str]:
    """By peer that this host does not reach: how, and on which ports."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row in host.saw("ports"):
        rows.setdefault(str(row["peer"]), {}).setdefault(str(row["result"]), []).append(int(row["port"]))
    return {
        peer: "; ".join(f"{result} on {_port_text(numbers, port_range)}" for result, numbers in sorted(results.items()))
        for peer, results in rows.items()
    }


def _port_text(numbers: list[int], port_range: tuple[int, int]) -> str:
    """Ports of the job's range by number; those that the kernel chose differ each time."""
    fixed = sorted(number for number in numbers if port_range[0] <= number <= port_range[1])
    free = len(numbers) - len(fixed)
    parts = (
        [f"{len(fixed)} tested ports from {fixed[0]} to {fixed[-1]}"]
        if len(fixed) > 1
        else [f"port {n}" for n in fixed]
    )
    return " and ".join([*parts, *(["ephemeral ports"] if free else [])])


def packets(fleet: Fleet) -> Iterator[Finding]:
    """Packets of the size of the MTU, from each host to each other, not to be split on the way."""
    yield from _between(fleet, "path mtu", _lost_packets)


def _lost_packets(host: CheckedHost) -> dict[str, str]:
    found = {}
    for peer, row in host.saw("path_mtu").items():
        if row["small"] and not row["large"]:
            smaller = row["kernel"] if row["kernel"] and row["kernel"] < row["mtu"] else None
            told = f"; a router there told {smaller}" if smaller else "; nothing on the way told the largest size"
            found[str(peer)] = f"small packets arrive, those of {row['mtu']} bytes do not{told}"
    silent = [str(peer) for peer, row in host.saw("path_mtu").items() if not (row["small"] or row["large"])]
    if silent and not found:
        raise NotRun(f"no UDP between it and {names(silent)}, with which the size is tested", broken=False)
    return found


TEXTS = {
    "ports": (
        "ranks connect on these ports", "all tested ports connect", "a connection to a listener of ddp-play",
        "allow the cluster's subnets in the firewalls of both (timeout: dropped; refused: rejected)",
        "nft list ruleset; iptables -S",
    ),
    "path mtu": (
        "connections open, and hang at the first large message", "packets of the size of the MTU arrive",
        "packets with the flag not to fragment", "set the MTU of the switches and hosts on the way to one value",
        "ping -M do -s SIZE PEER; tracepath PEER",
    ),
}  # fmt: skip


def _between(fleet: Fleet, check: str, read: Callable[[CheckedHost], Mapping[str, str]]) -> Iterator[Finding]:
    """Findings about directions: the host if all its peers fail, else the pair."""
    if fleet.network.problem:
        for host in fleet.reached:
            yield not_run(check, host.name, "the hosts have no common network", broken=True)
    addresses = dict(fleet.network.addresses)
    answers = {host.name: attempt(check, host, read) for host in fleet.reached if host.name in addresses}
    yield from (found for found in answers.values() if isinstance(found, Finding))
    seen = {name: found for name, found in answers.items() if not isinstance(found, Finding)}
    routed_elsewhere = _routed_elsewhere(fleet)
    texts = {(name, peer): text for name, found in seen.items() for peer, text in found.items()
             if frozenset((name, peer)) not in routed_elsewhere}  # fmt: skip
    for blamed, directions in attributed(list(texts), list(seen)):
        yield from _failed_between(check, blamed, {direction: texts[direction] for direction in directions})
    failed = {name for direction in texts for name in direction}
    if clean := tuple(name for name in seen if name not in failed):
        yield Finding(check, Status.OK, TEXTS[check][1], where=clean)


def _routed_elsewhere(fleet: Fleet) -> set[frozenset[str]]:
    """Pairs between which packets take another way: that is a finding of its own, and the rest follows from it."""
    pairs = set()
    for host in fleet.reached:
        found = attempt("", host, lambda host: misrouted(host, fleet))
        pairs |= set() if isinstance(found, Finding) else {frozenset((host.name, peer)) for peer in found}
    return pairs


def _failed_between(check: str, blamed: tuple[str, ...], texts: Mapping[Direction, str]) -> Iterator[Finding]:
    """A finding of a host with all its directions, or of a pair for each way to fail."""
    why, limit, source, command, look = TEXTS[check]
    by_text: dict[str, list[Direction]] = {}
    for direction, text in texts.items():
        by_text.setdefault(text, []).append(direction)
    if len(blamed) == 1:  # its peers may see the same block differently: a firewall answers only so many packets
        by_text = {" / ".join(sorted(by_text)[:MOST_TEXTS]): list(texts)}
    for text, directions in by_text.items():
        yield Finding(
            check, FAIL, text, why, command, blamed, directions=tuple(directions), limit=limit, source=source, look=look
        )


def attributed(directions: list[Direction], hosts: list[str]) -> list[tuple[tuple[str, ...], list[Direction]]]:
    """The hosts that each group of directions is about: one, if all its peers fail with it, else two."""
    left, found = list(directions), []
    for end in (1, 0):
        for host in hosts:
            part = [direction for direction in left if direction[end] == host]
            if len(part) == len(hosts) - 1 > 1:
                found.append(((host,), part))
                left = [direction for direction in left if direction not in part]
    pairs: dict[tuple[str, ...], list[Direction]] = {}
    for direction in left:
        pairs.setdefault(tuple(sorted(direction)), []).append(direction)
    return [*found, *pairs.items()]
