"""The matrix over channels: orders of each round, samples from the answers, hosts that end."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.pair_exchange import MatrixSettings, measure_matrix
from ddp_play.checks.pair_samples import PairEnd
from ddp_play.checks.time_budget import TimeBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SENT: dict[str, Any] = {"segments": 9000, "retransmits": 0, "cpu": 0.05, "not_offered": 0.01, "not_taken": 0.0}
RECEIVED: dict[str, Any] = {"mbps": 940.0, "cpu": 0.06, "checksum_errors": 0, "out_of_order": 9}
MEASURED: dict[str, Any] = {"sent": SENT, "received": RECEIVED, "rtt_ms": [0.05, 0.06, 0.2]}


@dataclass
class Hosts:
    """Answers of healthy hosts, but for `answer`: (kind, host, order) -> another answer, or None if it dies then."""

    answer: Callable[[str, str, Mapping[str, Any]], Any] = lambda _kind, _host, _order: MEASURED
    lost: dict[str, str] = field(default_factory=dict)
    orders: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    carrier: dict[str, int] = field(default_factory=dict)
    mtu: dict[str, int] = field(default_factory=dict)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for host, order in fields.items():
            if host in self.lost:
                continue
            self.orders.append((kind, host, order))
            answer = {
                "pair_listen": self._end(host, 7),
                "pair_end": self._end(host, 7 + self.carrier.get(host, 0)),
            }.get(kind, self.answer(kind, host, order))
            if answer is None:
                self.lost[host] = f"no answer to {kind} within {limit_s:g} s"
            else:
                found[host] = json.loads(json.dumps(answer))
        return found

    def _end(self, host: str, changes: int) -> dict[str, Any]:
        return {"port": 4000, "mtu": self.mtu.get(host, 1500), "carrier_changes": changes, "link_mbps": None}


def ends(*names: str) -> dict[str, PairEnd]:
    return {name: PairEnd(name, f"10.0.0.{at}", "eth0") for at, name in enumerate(names, start=1)}


def test_a_clean_fleet() -> None:
    hosts = Hosts()
    found = measure_matrix(hosts, ends("a", "b", "c"), MatrixSettings(seconds=2.0, streams=3))
    assert found.verdicts == ()
    assert (found.lost, found.num_not_run, found.num_cpu_limited) == ({}, 0, 0)
    assert {(row.source, row.target, row.mbps) for row in found.survey.samples} == {
        (one, other, 940.0) for one in "abc" for other in "abc" if one != other
    }
    assert found.survey.samples[0].rtt_ms == 0.06
    assert found.record() == {(row.source, row.target): 940.0 for row in found.survey.samples}
    document = json.loads(json.dumps(found.to_json()))
    assert document["hosts"]["a"]["mtu"] == 1500
    assert len(document["directions"]) == 6


def test_rounds_that_have_no_time_left_are_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([60.0, 60.0, 0.2])
    monkeypatch.setattr(TimeBudget, "left_s", lambda _self: next(left))
    hosts = Hosts()
    found = measure_matrix(hosts, ends("a", "b", "c"), MatrixSettings(budget=TimeBudget(20.0, 0.0)))
    measured = {row.pair for row in found.survey.samples if row.mbps}
    late = {row.pair: row.problem for row in found.survey.samples if not row.mbps}
    assert (len(measured), list(late.values())) == (2, ["no time left of --within 20s"])
    assert [kind for kind, _, _ in hosts.orders if kind != "pair_test"] == ["pair_listen"] * 3 + ["pair_end"] * 3
    document = found.to_json()
    assert (document["rounds"], document["rounds_late"], document["not_run"]) == (2, 1, 1)


def test_each_host_has_its_order_in_each_round_and_only_the_token_opens_a_listener() -> None:
    hosts = Hosts()
    measure_matrix(hosts, ends("a", "b", "c"), MatrixSettings(streams=3))
    tokens = {order["token"] for kind, _, order in hosts.orders if kind == "pair_listen"}
    assert len(tokens) == 1
    assert len(tokens.pop()) == 32
    rounds = [row for row in hosts.orders if row[0] == "pair_test"]
    assert len(rounds) == 9, "one that rests has an order too, which keeps its channel open"
    for at in range(0, 9, 3):
        first, second = (
            [row for row in rounds[at : at + 3] if row[2].get("first") is wanted] for wanted in (True, False)
        )
        assert first[0][2]["pair"] == second[0][2]["pair"]
        assert first[0][2]["address"] == ends("a", "b", "c")[second[0][1]].address
        assert (first[0][2]["port"], first[0][2]["streams"]) == (4000, 3)
        assert sum(not row[2] for row in rounds[at : at + 3]) == 1
    assert [kind for kind, _, _ in hosts.orders[-3:]] == ["pair_end"] * 3


def test_a_host_that_dies_ends_its_own_pairs_only() -> None:
    hosts = Hosts(lambda kind, host, _order: None if host == "b" else MEASURED)
    found = measure_matrix(hosts, ends("a", "b", "c", "d"))
    assert found.lost == {"b": "no answer to pair_test within 22 s"}
    assert found.num_not_run == 3
    assert all((row.mbps is None) == ("b" in row.pair) for row in found.survey.samples)
    assert "b: no answer" in next(row.problem for row in found.survey.samples if row.mbps is None)
    assert found.verdicts == ()
    ordered = [host for kind, host, order in hosts.orders if kind == "pair_test" and order]
    assert ordered.count("b") == 1, "it and its partners are asked for nothing more that needs it"


def test_a_way_that_does_not_carry_is_told_apart_from_a_test_that_did_not_run() -> None:
    def answer(_kind: str, host: str, order: Mapping[str, Any]) -> Any:
        if order.get("address") == "10.0.0.2" and host == "a":
            return {"problem": "no connection within 4 s", "unmet": True}
        return MEASURED

    found = measure_matrix(Hosts(answer), ends("a", "b", "c", "d"))
    assert [(row.kind, row.hosts) for row in found.verdicts] == [("link", ("a", "b"))]
    found = measure_matrix(Hosts(lambda *_: {"problem": "it does not listen", "unmet": False}), ends("a", "b", "c"))
    assert (found.verdicts, found.num_not_run) == ((), 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {}, {"sent": SENT, "received": RECEIVED}, {**MEASURED, "rtt_ms": "fast"}, {**MEASURED, "received": []},
        {**MEASURED, "received": {**RECEIVED, "mbps": "NaN"}}, {**MEASURED, "received": {**RECEIVED, "mbps": -1}},
        {**MEASURED, "received": {**RECEIVED, "mbps": 1e12}}, {**MEASURED, "sent": {**SENT, "segments": None}},
    ],
)  # fmt: skip
def test_an_answer_that_is_not_of_our_program_is_no_measurement(wrong: dict[str, Any]) -> None:
    found = measure_matrix(Hosts(lambda *_: wrong), ends("a", "b"))
    assert all(row.mbps is None for row in found.survey.samples)
    assert found.num_not_run == 1
    assert "is not what ddp-play's program sends" in found.survey.samples[0].problem


def test_who_is_the_limit_comes_from_both_ends() -> None:
    for sent, received in (
        ({"cpu": 0.9}, {}),
        ({"not_offered": 0.6}, {}),
        ({"not_taken": 0.5}, {}),
        ({}, {"cpu": 0.8}),
    ):
        answer = {**MEASURED, "sent": {**SENT, **sent}, "received": {**RECEIVED, **received}}
        found = measure_matrix(Hosts(lambda *_, answer=answer: answer), ends("a", "b"))
        assert found.num_cpu_limited == 2
        assert found.record() == {}


def test_what_interfaces_say() -> None:
    found = measure_matrix(Hosts(carrier={"b": 2}, mtu={"c": 9000}), ends("a", "b", "c"))
    assert {(row.hosts, row.evidence[0].metric) for row in found.verdicts} == {
        (("b",), "carrier changes"),
        (("c",), "mtu"),
    }


def test_a_host_that_cannot_listen_takes_no_part() -> None:
    class Deaf(Hosts):
        def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
            found = super().documents(kind, fields, limit_s=limit_s)
            return {host: {} if (kind, host) == ("pair_listen", "a") else row for host, row in found.items()}

    found = measure_matrix(Deaf(), ends("a", "b", "c"))
    assert found.lost == {"a": "its answer to pair_listen is not what ddp-play's program sends"}
    assert {row.pair for row in found.survey.samples} == {("b", "c")}
