"""The rule on exact matrices: who is blamed, and when a comparison alone cannot tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ddp_play.checks.pair_outcome import Kind, Verdict
from ddp_play.checks.pair_samples import PairEnd, Sample, not_run
from ddp_play.checks.pair_verdict import judge, judge_ends

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FULL = 950.0


def hosts(number: int) -> list[str]:
    return [f"h{at}" for at in range(1, number + 1)]


def ends(number: int, *, link: float | None = None, mtu: int = 1500) -> dict[str, PairEnd]:
    return {host: PairEnd(host, link_mbps=link, mtu=mtu) for host in hosts(number)}


def matrix(
    number: int, *, sends: Mapping[str, float] | None = None, receives: Mapping[str, float] | None = None,
    paths: Mapping[tuple[str, str], float] | None = None,
) -> list[Sample]:  # fmt: skip
    """Rates as the slower of what the sender sends, the receiver takes and the path carries."""
    return [
        Sample(
            one, other, min((sends or {}).get(one, FULL), (receives or {}).get(other, FULL),
                            (paths or {}).get((one, other), FULL)),
            segments=10_000, rtt_ms=0.1,
        )
        for one in hosts(number) for other in hosts(number) if one != other
    ]  # fmt: skip


def said(number: int, samples: Sequence[Sample], link: float | None = None) -> list[tuple[str, tuple[str, ...], str]]:
    return [(str(row.kind), row.hosts, row.way) for row in judge(ends(number, link=link), samples)]


def test_a_clean_fleet_of_any_size() -> None:
    for number in (0, 1, 2, 3, 4, 16):
        assert said(number, matrix(number)) == []
        assert said(number, matrix(number), link=1000) == []


def test_a_host_by_its_way() -> None:
    for number in (3, 4, 8):
        assert said(number, matrix(number, sends={"h2": 500})) == [("host", ("h2",), "sends")]
        assert said(number, matrix(number, receives={"h2": 500})) == [("host", ("h2",), "receives")]
        both = matrix(number, sends={"h2": 500}, receives={"h2": 500})
        assert said(number, both) == [("host", ("h2",), "both ways")]


def test_link_and_direction() -> None:
    paths = {("h3", "h1"): 400.0}
    assert said(3, matrix(3, paths=paths)) == [("direction", ("h3", "h1"), "")]
    assert said(4, matrix(4, paths={**paths, ("h1", "h3"): 400.0})) == [("link", ("h1", "h3"), "")]


def test_two_defects_at_once() -> None:
    found = said(8, matrix(8, sends={"h2": 500}, paths={("h7", "h5"): 300.0}))
    assert found == [("host", ("h2",), "sends"), ("direction", ("h7", "h5"), "")]
    assert len(said(8, matrix(8, sends={"h2": 500, "h6": 400}))) == 2


def test_of_two_hosts_it_cannot_be_told_which() -> None:
    (found,) = judge(ends(2), matrix(2, paths={("h2", "h1"): 600.0}))
    assert (found.kind, found.hosts) == (Kind.UNCLEAR, ("h2", "h1"))
    assert "h2 sends or h1 receives slowly" in found.way
    assert said(2, matrix(2, paths={("h2", "h1"): 600.0, ("h1", "h2"): 600.0})) == []
    slow = matrix(2, paths={("h2", "h1"): 600.0, ("h1", "h2"): 600.0})
    assert [row[0] for row in said(2, slow, link=1000)] == ["cannot tell"]


def test_most_hosts_bad_is_not_decided_by_comparison() -> None:
    slow = dict.fromkeys(("h1", "h2", "h3", "h4", "h5"), 500.0)
    (found,) = judge(ends(8), matrix(8, sends=slow, receives=slow))
    assert (found.kind, found.hosts) == (Kind.UNCLEAR, ("h6", "h7", "h8"))
    half = dict.fromkeys(("h1", "h2", "h3", "h4"), 500.0)
    (found,) = judge(ends(8), matrix(8, sends=half, receives=half))
    assert (found.kind, found.hosts) == (Kind.UNCLEAR, ("h1", "h2", "h3", "h4"))
    assert "link speed or an own record can" in found.evidence[0].source


def test_there_are_others_only_where_some_host_is_not_concerned() -> None:
    (found,) = judge(ends(4), matrix(4, sends={"h1": 500}))
    assert found.evidence[0].others == f"{FULL:.0f} Mb/s (median of 6)"
    (found,) = judge(ends(4), matrix(4, paths={("h1", "h2"): 500.0, ("h2", "h3"): 500.0, ("h3", "h4"): 500.0,
                                               ("h4", "h1"): 500.0, ("h1", "h3"): 500.0}))  # fmt: skip
    assert (found.kind, found.hosts) == (Kind.UNCLEAR, ("h1", "h2", "h3", "h4"))
    assert found.evidence[0].others == ""
    assert "others" not in found.text()


def test_the_link_speed_decides_then_and_blames_no_single_host() -> None:
    slow = dict.fromkeys(("h1", "h2", "h3", "h4", "h5"), 500.0)
    assert said(8, matrix(8, sends=slow, receives=slow), link=1000)[-1][:2] == ("infrastructure", tuple(slow))
    everybody = dict.fromkeys(hosts(8), 500.0)
    assert said(8, matrix(8, sends=everybody)) == []  # nothing to compare with
    assert said(8, matrix(8, sends=everybody), link=1000) == [("infrastructure", tuple(hosts(8)), "")]


def test_an_own_record_decides_too() -> None:
    records = {(row.source, row.target): FULL for row in matrix(3)}
    everybody = dict.fromkeys(hosts(3), 500.0)
    (found,) = judge(ends(3), matrix(3, sends=everybody), records)
    assert (found.kind, found.evidence[0].source) == (Kind.INFRASTRUCTURE, "85% of its own record")
    assert judge(ends(3), matrix(3), records) == ()


def changed(number: int, source: str, **values: object) -> list[Sample]:
    return [replace(row, **values) if row.source == source else row for row in matrix(number)]  # type: ignore[arg-type]


def test_loss_is_the_cause_and_the_rate_its_effect() -> None:
    """Of four hosts one is slow as well: with the lossy one they would be half of them."""
    slow = [
        replace(row, mbps=500.0) if row.source == "h3" else row for row in changed(4, "h2", retransmits=100, mbps=400.0)
    ]
    assert [(row.hosts, row.evidence[0].metric) for row in judge(ends(4), slow)] == [
        (("h2",), "retransmits"),
        (("h3",), "rate"),
    ]
    lossy = changed(4, "h2", retransmits=100, mbps=400.0)
    (found,) = judge(ends(4), lossy)
    assert (found.kind, found.hosts, found.way) == (Kind.HOST, ("h2",), "sends")
    assert [row.metric for row in found.evidence] == ["retransmits"]
    assert found.evidence[0].value == "1.00%"


def test_packets_out_of_order_are_the_cause_of_a_rate_and_the_effect_of_loss() -> None:
    (found,) = judge(ends(4), changed(4, "h2", out_of_order=1200, mbps=400.0))
    assert (found.hosts, found.way, [row.metric for row in found.evidence]) == (("h2",), "sends", ["out of order"])
    assert found.evidence[0].value == "12.00%"
    (found,) = judge(ends(4), changed(4, "h2", out_of_order=1200, retransmits=100, mbps=400.0))
    assert [row.metric for row in found.evidence] == ["retransmits"]


def test_latency_is_judged_also_of_a_host_that_loses_packets() -> None:
    rows = [replace(row, rtt_ms=5.1) if "h2" in row.pair else row for row in changed(4, "h2", retransmits=100)]
    metrics = {row.metric for found in judge(ends(4), rows) for row in found.evidence}
    assert metrics == {"retransmits", "latency"}


def test_checksum_errors_and_latency() -> None:
    (found,) = judge(ends(4), changed(4, "h3", checksum_errors=3))
    assert (found.hosts, found.evidence[0].metric, found.way) == (("h3",), "checksum errors", "sends")
    late = [replace(row, rtt_ms=5.1) if "h1" in row.pair else row for row in matrix(4)]
    (found,) = judge(ends(4), late)
    assert (found.hosts, found.evidence[0].metric, found.way) == (("h1",), "latency", "both ways")


def test_what_a_cpu_limited_is_no_evidence() -> None:
    assert judge(ends(4), changed(4, "h2", mbps=500.0, busy=0.9)) == ()
    starved = [replace(row, busy=0.9, mbps=2000.0 + 100 * at) for at, row in enumerate(matrix(4))]
    assert judge(ends(4), starved) == ()
    (found,) = judge(ends(4), [replace(row, mbps=50.0, busy=0.0) if row.source == "h2" else row for row in starved])
    assert (found.hosts, found.way) == (("h2",), "sends")


def test_pairs_that_were_not_met() -> None:
    rows = [row for row in matrix(4) if row.pair != ("h1", "h2")] + [*not_run("h1", "h2", "timed out", unmet=True)]
    (found,) = judge(ends(4), rows)
    assert (found.kind, found.hosts, found.evidence[0].value) == (Kind.LINK, ("h1", "h2"), "timed out")
    rows = [row for row in matrix(4) if "h1" not in row.pair]
    rows += [sample for host in ("h2", "h3", "h4") for sample in not_run("h1", host, "timed out", unmet=True)]
    (found,) = judge(ends(4), rows)
    assert (found.kind, found.hosts) == (Kind.HOST, ("h1",))
    none = [sample for host in ("h2", "h3") for sample in not_run("h1", host, "timed out", unmet=True)]
    assert judge(ends(3), none)[0].kind is Kind.INFRASTRUCTURE
    assert judge(ends(4), [*not_run("h1", "h2", "the host died")]) == ()


def test_what_hosts_say_of_their_interfaces() -> None:
    known = ends(4)
    assert judge_ends(known) == []
    odd = {**known, "h2": replace(known["h2"], mtu=1400), "h3": replace(known["h3"], carrier_changes=2)}
    found: list[Verdict] = judge_ends(odd)
    assert {(row.hosts, row.evidence[0].metric) for row in found} == {(("h2",), "mtu"), (("h3",), "carrier changes")}
    (unclear,) = judge_ends({"h1": known["h1"], "h2": replace(known["h2"], mtu=1400)})
    assert unclear.kind is Kind.UNCLEAR


def test_more_than_half_of_the_hosts_at_fault_means_the_test_or_the_network() -> None:
    rows = [replace(row, checksum_errors=4) if row.source in ("h1", "h2", "h3") else row for row in matrix(4)]
    (found,) = judge(ends(4), rows)
    assert found.kind is Kind.INFRASTRUCTURE
    assert {"h1", "h2", "h3"} <= set(found.hosts)
