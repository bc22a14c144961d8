"""Findings about the network between hosts, from matrices as the full level makes them."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.pair_exchange import Matrix
from ddp_play.checks.pair_findings import network_matrix
from ddp_play.checks.pair_outcome import Evidence, Kind, Verdict
from ddp_play.checks.pair_samples import PairEnd, Sample, not_run
from ddp_play.checks.pair_survey import Survey
from ddp_play.checks.peer_addresses import PeerNetwork

from .fleets import fleet

NAMES = ("h1", "h2", "h3")
ENDS = {name: PairEnd(name, f"10.0.0.{number}", "eth0") for number, name in enumerate(NAMES, 1)}
WELL = tuple(Sample(one, other, 940.0, rtt_ms=0.2) for one in NAMES for other in NAMES if one != other)
SLOW = Evidence("rate", "563 Mb/s", "846 Mb/s", 4, "10 % below the median of the hosts", "the others: 940 Mb/s")


def matrix(
    *verdicts: Verdict, samples: tuple[Sample, ...] = WELL, lost: dict[str, str] | None = None
) -> dict[str, Any]:
    return Matrix(ENDS, Survey(samples, (), verdicts, (), 3), verdicts, lost or {}).to_json()


def findings(document: dict[str, Any] | None, network: PeerNetwork | None = None) -> list[Finding]:
    known = fleet(3)
    return list(network_matrix(Fleet(known.hosts, network or known.network, document)))


def test_a_fleet_without_defects_is_one_pass() -> None:
    [found] = findings(matrix())
    assert (found.status, found.where, found.value) == (Status.OK, NAMES, "median 940 Mb/s in 6 directions")


def test_a_cpu_that_was_the_limit_is_said_and_holds_nothing_against_a_host() -> None:
    busy = tuple(Sample(row.source, row.target, 400.0, busy=0.9) for row in WELL)
    [found] = findings(matrix(samples=busy))
    assert found.value.endswith("; a CPU was the limit in 6, the network carries at least that")


@pytest.mark.parametrize(
    ("verdict", "status", "ways", "words"),
    [
        (Verdict(Kind.HOST, ("h2",), (SLOW,), "sends"), Status.FAIL, (), "rate 563 Mb/s (sends)"),
        (Verdict(Kind.LINK, ("h1", "h3"), (SLOW,)), Status.FAIL, (("h1", "h3"), ("h3", "h1")), "rate 563 Mb/s"),
        (Verdict(Kind.DIRECTION, ("h3", "h1"), (SLOW,)), Status.FAIL, (("h3", "h1"),), "rate 563 Mb/s"),
        (Verdict(Kind.UNCLEAR, ("h1", "h2"), (SLOW,)), Status.WARN, (), "it cannot be told which host"),
        (Verdict(Kind.INFRASTRUCTURE, NAMES, (SLOW,)), Status.WARN, (), "the test or the network is at fault"),
    ],
)
def test_a_verdict_is_a_finding(verdict: Verdict, status: Status, ways: tuple[Any, ...], words: str) -> None:
    found, *rest = findings(matrix(verdict))
    assert (found.status, found.where, found.directions) == (status, verdict.hosts, ways)
    assert words in found.value
    assert (found.limit, found.others) == ("846 Mb/s", "940 Mb/s")
    assert found.look == "ethtool eth0; tc -s qdisc show dev eth0"
    assert "cable" in found.command
    assert [(row.status, row.where) for row in rest] == [
        (Status.OK, tuple(name for name in NAMES if name not in verdict.hosts))
    ] * (set(verdict.hosts) != set(NAMES))


def test_a_pair_that_was_not_measured_is_not_run_once_and_never_passed() -> None:
    samples = (*not_run("h1", "h2", "h2: no answer"), *(row for row in WELL if "h3" in row.pair))
    found = findings(matrix(samples=samples))
    assert [(row.status, row.where, row.broken) for row in found] == [
        (Status.UNCHECKED, ("h1", "h2"), True),
        (Status.OK, ("h3",), False),
    ]


def test_the_address_in_a_command_is_that_of_the_peer() -> None:
    reach = Evidence("reach", "no connection", "all connect", 1, "a connection", "they connect")
    [found, _] = findings(matrix(Verdict(Kind.DIRECTION, ("h1", "h2"), (reach,))))
    assert found.look == "ip route get 10.0.0.2; iptables-save"


@pytest.mark.parametrize("document", [None, Matrix({}, Survey((), (), (), (), 0), (), {}).to_json()])
def test_without_two_hosts_there_is_no_result(document: dict[str, Any] | None) -> None:
    [found] = findings(document, PeerNetwork(problem="no common network"))
    assert (found.status, found.value, found.broken) == (Status.UNCHECKED, "no common network", False)
