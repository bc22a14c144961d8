"""Findings about the network between hosts, from matrices as the full level makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.pair_exchange import Matrix
from ddp_play.checks.pair_findings import network_matrix, suspected
from ddp_play.checks.pair_outcome import Evidence, Kind, Verdict
from ddp_play.checks.pair_samples import PairEnd, Sample, not_run
from ddp_play.checks.pair_survey import Survey
from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.checks.time_budget import TimeBudget

from .fleets import fleet

NAMES = ("h1", "h2", "h3")
ENDS = {name: PairEnd(name, f"10.0.0.{number}", "eth0") for number, name in enumerate(NAMES, 1)}
WELL = tuple(Sample(one, other, 940.0, rtt_ms=0.2) for one in NAMES for other in NAMES if one != other)
LATE_10 = TimeBudget(10.0, 0.0).reason
SLOW = Evidence("rate", "563 Mb/s", "846 Mb/s", 4, "10 % below the median of the hosts", "940 Mb/s")


def matrix(
    *verdicts: Verdict, samples: tuple[Sample, ...] = WELL, lost: dict[str, str] | None = None
) -> dict[str, Any]:
    return Matrix(ENDS, Survey(samples, (), verdicts, (), 3), verdicts, lost or {}).to_json()


def late_matrix(
    *verdicts: Verdict, again: tuple[Sample, ...] = (), samples: tuple[Sample, ...] = WELL
) -> dict[str, Any]:
    """With a round that had no time left."""
    return Matrix(ENDS, Survey(samples, again, verdicts, (), 3), verdicts, {}, 1).to_json()


def findings(
    document: dict[str, Any] | None, network: PeerNetwork | None = None, *, lost: dict[str, str] | None = None
) -> list[Finding]:
    """`lost`: as the host itself has it, which the exchange notes after the matrix too."""
    known = fleet(3)
    hosts = tuple(replace(host, lost=(lost or {}).get(host.name, "")) for host in known.hosts)
    return list(network_matrix(Fleet(hosts, network or known.network, document)))


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


def test_pairs_without_time_are_one_finding_and_no_pass() -> None:
    samples = (*not_run("h1", "h2", LATE_10), *not_run("h1", "h3", LATE_10), *(r for r in WELL if "h1" not in r.pair))
    [found] = findings(late_matrix(samples=samples))
    assert (found.status, found.where, found.broken) == (Status.UNCHECKED, NAMES, True)
    assert found.value == "2 of 3 pairs: no time left (--within)"


def test_what_is_blamed_and_was_not_measured_again_for_want_of_time_fails_no_host() -> None:
    verdict = Verdict(Kind.HOST, ("h2",), (SLOW,), "sends")
    document = late_matrix(verdict, again=not_run("h1", "h2", LATE_10))
    once, late, _ = findings(document)
    assert (once.status, once.where) == (Status.WARN, ("h2",))
    assert once.value.endswith("; measured once, no time left to repeat it")
    assert (late.status, late.broken) == (Status.UNCHECKED, True)
    assert "what was bad, again: no time left" in late.value
    assert suspected(document) == {"h2"}
    twice = late_matrix(verdict, again=(Sample("h1", "h2", 500.0), *not_run("h2", "h3", LATE_10)))
    assert findings(twice)[0].status is Status.FAIL
    assert suspected(twice) == set()


def test_pairs_alone_without_time_are_said() -> None:
    late, well = findings(late_matrix())
    assert (late.where, late.broken) == (NAMES, True)
    assert "share a link: no time left" in late.value
    assert well.status is Status.OK


def test_a_check_that_had_no_time_for_the_network_says_so() -> None:
    known = fleet(3)
    [found] = network_matrix(Fleet(known.hosts, known.network, None, LATE_10))
    assert (found.status, found.value, found.broken) == (Status.UNCHECKED, LATE_10, True)


UNMET = "no connection within 5 s"
REACH = Evidence("reach", UNMET, "a connection", 2, "any pair", "they meet others")


def without(*hosts: str) -> tuple[Sample, ...]:
    return tuple(row for row in WELL if not set(row.pair) & set(hosts))


@pytest.mark.parametrize(
    ("samples", "lost", "own", "expected"),
    [
        (without("h2"), {"h2": "no answer to pair_listen"}, {}, {"h2": "no answer to pair_listen"}),
        (without("h2"), {}, {"h2": "no answer to check_reach"}, {"h2": "no answer to check_reach"}),
        (without("h2"), {}, {}, {"h2": "it was not measured"}),
        (WELL, {"h3": "no answer to pair_end"}, {}, {"h3": "no answer to pair_end"}),
        ((*without("h2"), *not_run("h1", "h2", UNMET, unmet=True)), {}, {}, {"h1": UNMET, "h2": UNMET}),
    ],
)
def test_a_host_that_was_lost_or_left_out_is_not_run(
    samples: tuple[Sample, ...], lost: dict[str, str], own: dict[str, str], expected: dict[str, str]
) -> None:
    document = matrix(samples=samples, lost=lost)
    if own or lost.get("h2"):
        del document["hosts"]["h2"]
    found = findings(document, lost=own)
    assert {row.where: row.value for row in found if row.broken} == {(host,): why for host, why in expected.items()}
    [well] = [row for row in found if row.status is Status.OK]
    assert well.where == tuple(host for host in NAMES if host not in expected)


def test_a_pair_that_met_when_it_was_tried_again_counts_as_measured() -> None:
    samples = (*not_run("h1", "h2", UNMET, unmet=True), *(row for row in WELL if "h3" in row.pair))
    document = matrix(samples=samples)
    assert [(row.status, row.where) for row in findings(document)] == [
        (Status.UNCHECKED, ("h1",)), (Status.UNCHECKED, ("h2",)), (Status.OK, ("h3",)),
    ]  # fmt: skip
    document["repeated"] = [row.to_json() for row in WELL if row.pair == ("h1", "h2")]
    assert [(row.status, row.where) for row in findings(document)] == [(Status.OK, NAMES)]


def test_what_a_blamed_host_explains_is_held_against_nobody_else() -> None:
    unmet = [row for other in ("h1", "h3") for row in not_run("h2", other, UNMET, unmet=True)]
    found = findings(matrix(Verdict(Kind.HOST, ("h2",), (REACH,), "both ways"), samples=(*unmet, *without("h2"))))
    assert [(row.status, row.where) for row in found] == [(Status.FAIL, ("h2",)), (Status.OK, ("h1", "h3"))]


def test_the_address_in_a_command_is_that_of_the_peer() -> None:
    reach = Evidence("reach", "no connection", "all connect", 1, "a connection", "they connect")
    [found, _] = findings(matrix(Verdict(Kind.DIRECTION, ("h1", "h2"), (reach,))))
    assert found.look == "ip route get 10.0.0.2; iptables-save"


EMPTY = Matrix({}, Survey((), (), (), (), 0), (), {}).to_json()


@pytest.mark.parametrize("document", [None, EMPTY])
def test_without_two_hosts_there_is_no_result(document: dict[str, Any] | None) -> None:
    [found] = findings(document, PeerNetwork(problem="no common network"))
    assert (found.status, found.value, found.broken) == (Status.UNCHECKED, "no common network", False)


@pytest.mark.parametrize("document", [None, EMPTY])
def test_hosts_that_were_lost_before_the_matrix_break_the_check(document: dict[str, Any] | None) -> None:
    lost = {"h1": "no answer to check_read", "h3": "the connection ended"}
    found = findings(document, PeerNetwork(), lost=lost)
    assert [(row.where, row.value, row.broken) for row in found] == [
        (("h1",), "no answer to check_read", True),
        (("h3",), "the connection ended", True),
        (("h2",), "there are no two hosts to measure between", True),
    ]


def test_of_one_host_no_matrix_is_expected() -> None:
    known = fleet(1)
    [found] = network_matrix(known)
    assert (found.value, found.broken) == ("there are no two hosts to measure between", False)
