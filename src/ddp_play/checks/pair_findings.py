"""Findings about the network between hosts, from the verdicts on their pair matrix. Pure."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import not_run
from ddp_play.checks.pair_outcome import Kind
from ddp_play.checks.time_budget import LATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddp_play.checks.fleet import Fleet

CHECK = "network"
ALONE = "pairs alone on the network, which would show whether the hosts share a link"
WHY = "a gradient travels at the speed of the slowest way between two hosts"


def network_matrix(fleet: Fleet) -> Iterator[Finding]:
    """What is at fault between the hosts, what was not measured, and what all others have: each host has a finding."""
    matrix, hosts = fleet.matrix, tuple(host.name for host in fleet.reached)
    if not matrix or len(matrix["hosts"]) < 2:
        yield from _no_matrix(fleet, hosts)
        return
    for verdict in matrix["verdicts"]:
        yield _verdict(verdict, matrix)
    yield from _not_run(matrix)
    missing = _missing(fleet, matrix)
    for host, why in missing.items():
        yield not_run(CHECK, host, why, broken=True)
    known = _blamed(matrix) | _half_measured(matrix) | missing.keys()
    well = tuple(host for host in matrix["hosts"] if host not in known)
    if well:
        yield Finding(CHECK, Status.OK, _rates(matrix), where=well)


def _no_matrix(fleet: Fleet, hosts: tuple[str, ...]) -> Iterator[Finding]:
    """Nothing was measured. With several hosts on a network that is because hosts were lost."""
    lost = _lost(fleet)
    for host in hosts:
        if host in lost:
            yield not_run(CHECK, host, lost[host], broken=True)
    if rest := tuple(host for host in hosts if host not in lost):
        late = fleet.late if len(hosts) > 1 else ""
        reason = fleet.network.problem or late or "there are no two hosts to measure between"
        broken = len(hosts) > 1 and not fleet.network.problem
        yield Finding(CHECK, Status.UNCHECKED, reason, where=rest, broken=broken)


def _lost(fleet: Fleet) -> dict[str, str]:
    """Hosts that stopped answering, with the reason."""
    lost = {**(fleet.matrix or {}).get("lost", {}), **{host.name: host.lost for host in fleet.reached if host.lost}}
    return {host.name: lost[host.name] for host in fleet.reached if host.name in lost}


def _missing(fleet: Fleet, matrix: Mapping[str, Any]) -> dict[str, str]:
    """Hosts of which something was not measured and that no other finding is about, with the reason."""
    blamed, half = _blamed(matrix), _half_measured(matrix)
    measured = {(row["source"], row["target"]) for row in (*matrix["directions"], *matrix["repeated"]) if row["mbps"]}
    met = {host for direction in measured for host in direction}
    unmet = {
        row["source"]: row["problem"] for row in matrix["directions"]
        if row["unmet"] and not {row["source"], row["target"]} & blamed
        and (row["source"], row["target"]) not in measured
    }  # fmt: skip
    lost = _lost(fleet)
    for host in (host.name for host in fleet.reached if host.name not in lost):
        if host in unmet and host not in blamed:
            lost[host] = unmet[host]
        elif host not in matrix["hosts"] or host not in met | half | blamed:
            lost[host] = "it was not measured"
    return lost


def _blamed(matrix: Mapping[str, Any]) -> set[str]:
    return {host for verdict in matrix["verdicts"] for host in verdict["hosts"]}


def _half_measured(matrix: Mapping[str, Any]) -> set[str]:
    """Hosts of pairs without a measurement, for another reason than the network."""
    return {row["source"] for row in matrix["directions"] if row["mbps"] is None and not row["unmet"]}


def _verdict(verdict: Mapping[str, Any], matrix: Mapping[str, Any]) -> Finding:
    hosts, way = tuple(verdict["hosts"]), verdict["way"]
    values = "; ".join(f"{row['metric']} {row['value']}" for row in verdict["evidence"])
    first, kind = verdict["evidence"][0], verdict["kind"]
    said = {
        Kind.UNCLEAR: "it cannot be told which host is at fault: ",
        Kind.INFRASTRUCTURE: "the test or the network is at fault, no single host: ",
    }.get(kind, "")
    once = verdict["blames"] and set(hosts) <= suspected(matrix)
    said_once = "; measured once, no time left to repeat it" if once else ""
    return Finding(
        CHECK, Status.FAIL if verdict["blames"] and not once else Status.WARN,
        said + values + (f" ({way})" if way else "") + said_once, WHY,
        verdict["remedy"], hosts, directions=_directions(kind, hosts), limit=first["limit"],
        source=f"{first['source']}; n={first['num']}", others=first["others"],
        look=_look(verdict["look"], hosts, matrix),
    )  # fmt: skip


def suspected(matrix: Mapping[str, Any]) -> set[str]:
    """Hosts that are blamed, and there was no time to measure them again: one measurement alone fails no host."""
    found: set[str] = set()
    for hosts in (set(verdict["hosts"]) for verdict in matrix["verdicts"] if verdict["blames"]):
        again = [row for row in matrix["repeated"] if {row["source"], row["target"]} & hosts]
        if any(row["problem"].startswith(LATE) for row in again) and all(row["mbps"] is None for row in again):
            found |= hosts
    return found


def _directions(kind: str, hosts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if kind not in (Kind.LINK, Kind.DIRECTION):
        return ()
    one, other = hosts
    return ((one, other),) if kind == Kind.DIRECTION else ((one, other), (other, one))


def _look(command: str, hosts: tuple[str, ...], matrix: Mapping[str, Any]) -> str:
    """The command for the first host; ADDRESS is that of the other one of the pair."""
    ends = [matrix["hosts"][host] for host in hosts if host in matrix["hosts"]]
    if not ends:
        return command
    return command.replace("INTERFACE", ends[0]["interface"]).replace("ADDRESS", ends[-1]["address"])


def _not_run(matrix: Mapping[str, Any]) -> Iterator[Finding]:
    """Pairs without a measurement for another reason than the network, each once; those without time together."""
    rows = [row for row in matrix["directions"] if row["source"] < row["target"]]
    late = [row for row in rows if row["problem"].startswith(LATE)]
    again = [row for row in matrix["repeated"] if row["problem"].startswith(LATE)]
    if matrix["rounds_late"]:
        what = f"{len(late)} of {len(rows)} pairs" if late else "what was bad, again" if again else ALONE
        hosts = {host for row in late or again for host in (row["source"], row["target"])} or matrix["hosts"]
        text = f"{what}: {LATE} (--within)"
        yield Finding(CHECK, Status.UNCHECKED, text, where=tuple(sorted(hosts)), broken=True)
    for row in rows:
        if row["mbps"] is None and not row["unmet"] and row not in late:
            pair = (row["source"], row["target"])
            yield Finding(CHECK, Status.UNCHECKED, row["problem"], where=pair, directions=(pair,), broken=True)


def _rates(matrix: Mapping[str, Any]) -> str:
    rates = [row["mbps"] for row in matrix["directions"] if row["mbps"] is not None]
    text = f"median {statistics.median(rates):.0f} Mb/s in {len(rates)} directions"
    limited = matrix["cpu_limited"]
    return text + (f"; a CPU was the limit in {limited}, the network carries at least that" if limited else "")
