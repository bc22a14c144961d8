"""Verdicts on one thing join; what a host explains is no verdict on its links."""

from __future__ import annotations

from ddp_play.checks.pair_outcome import LOOK, REMEDY, Evidence, Kind, Verdict, merged
from ddp_play.checks.pair_yardsticks import yardsticks


def verdict(kind: Kind, *hosts: str, metric: str = "rate", way: str = "") -> Verdict:
    row = Evidence(metric, "412 Mb/s", "854 Mb/s", 7, "median less 10 %", "949 Mb/s", 1.0)
    return Verdict(kind, hosts, (row,), way)


def test_a_host_that_sends_and_receives_badly_is_one_verdict() -> None:
    (found,) = merged([verdict(Kind.HOST, "a", way="sends"), verdict(Kind.HOST, "a", way="receives")])
    assert (found.way, len(found.evidence)) == ("both ways", 2)
    (found,) = merged(
        [verdict(Kind.HOST, "a", way="sends"), verdict(Kind.HOST, "a", metric="retransmits", way="sends")]
    )
    assert found.way == "sends"


def test_two_directions_of_a_pair_are_its_link() -> None:
    (found,) = merged([verdict(Kind.DIRECTION, "b", "a"), verdict(Kind.DIRECTION, "a", "b", metric="retransmits")])
    assert (found.kind, found.hosts) == (Kind.LINK, ("a", "b"))
    (found,) = merged([verdict(Kind.DIRECTION, "b", "a"), verdict(Kind.DIRECTION, "b", "a", metric="retransmits")])
    assert (found.kind, found.hosts) == (Kind.DIRECTION, ("b", "a"))


def test_a_pair_is_left_out_where_another_metric_of_a_host_explains_it() -> None:
    host = verdict(Kind.HOST, "a", metric="retransmits", way="sends")
    assert merged([host, verdict(Kind.LINK, "a", "b")]) == (host,)
    # the same metric was weighed already, and other hosts have nothing to do with it
    for row in (verdict(Kind.LINK, "a", "b", metric="retransmits"), verdict(Kind.LINK, "b", "c")):
        assert merged([host, row]) == (host, row)


def test_every_metric_has_a_command_and_a_remedy() -> None:
    metrics = {row.metric for row in yardsticks({}, {})} | {"reach", "mtu", "carrier changes"}
    assert set(LOOK) == set(REMEDY) == metrics


def test_text_and_document_name_value_limit_number_source_and_the_others() -> None:
    found = verdict(Kind.DIRECTION, "a", "b")
    assert found.text() == ("direction a -> b: rate 412 Mb/s, limit 854 Mb/s (median less 10 %; n=7); others: 949 Mb/s")
    assert found.to_json()["evidence"] == [
        {"metric": "rate", "value": "412 Mb/s", "limit": "854 Mb/s", "num": 7, "source": "median less 10 %",
         "others": "949 Mb/s"}
    ]  # fmt: skip
    assert {row.metric for row in found.evidence} == {"rate"}
    assert (found.to_json()["look"], found.to_json()["remedy"]) == (LOOK["rate"], REMEDY["rate"])
    assert found.to_json()["blames"] is found.blames is True
    assert found.to_json()["text"] == found.text()
    assert not verdict(Kind.UNCLEAR, "a", "b").blames
    for kind in Kind:
        assert verdict(kind, "a", "b", way="sends").text()
