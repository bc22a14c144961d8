"""Rounds of a burn-in over channels: how many, how long, and what is asked of each host in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddp_play.checks.burn_in import LEAST_LOAD_S, MOST_LOAD_S, BurnIn
from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.checks.torch_load import TorchLoad

HOSTS = ("h1", "h2", "h3")
NETWORK = PeerNetwork(
    "10.0.0.0/24",
    tuple((name, f"10.0.0.{at}") for at, name in enumerate(HOSTS, 1)),
    tuple((name, "eth0") for name in HOSTS),
)
OVERHEAD_S = 5.0  # of a round: loading torch


@dataclass
class Talk:
    """Hosts with a clock that goes on by the load of each round; `gone`: by host the round in which it is lost."""

    left_s: float
    gone: Mapping[str, int] = field(default_factory=dict)
    hung: tuple[int, ...] = ()  # rounds in which the group does not end
    now: float = 1000.0
    lost: dict[str, str] = field(default_factory=dict)
    asked: list[Mapping[str, dict[str, Any]]] = field(default_factory=list)

    def has_time(self, least_s: float) -> bool:
        return self.left_s >= least_s

    def cap_s(self, limit_s: float) -> float:
        return min(limit_s, self.left_s)

    def clock(self) -> float:
        return self.now

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert (kind, limit_s > 0) == ("check_torch", True)
        self.asked.append(fields)
        for name, number in self.gone.items():
            if number == len(self.asked):
                self.lost[name] = "the connection ended"
        order = fields["h1"]["order"]
        took_s = OVERHEAD_S + order["multiply"]["seconds"] + order["repeat"]["seconds"]
        self.now += took_s
        self.left_s -= took_s
        return {name: {"program": {"value": self._value(row["order"])}} for name, row in fields.items()
                if name not in self.lost}  # fmt: skip

    def _value(self, order: dict[str, Any]) -> dict[str, Any]:
        multiplied = {"part": "multiply", "device": "cpu", "gflops": 160.0, "gflops_per_cpu": 80.0, "cpu_share": 0.9,
                      "right": True}  # fmt: skip
        repeated = {"part": "repeat", "device": "cpu", "kind": "EPYC", "calls": 10, "wrong": 0, "digest": "ab",
                    "next": order["repeat"]["first"] + 10, "cpus": 2}  # fmt: skip
        group: dict[str, Any] = {"part": "group", "backend": "gloo", "sizes": [
            {"bytes": 1 << 24, "seconds": 0.1, "wrong": 0, "busbw_gb_s": 0.5}]}  # fmt: skip
        if len(self.asked) in self.hung:
            group = {"part": "group", "problem": "Timed out"}
        return {
            "parts": [{"part": "start"}, multiplied, repeated, group],
            "before": {},
            "after": {"times_too_hot": 1.0},
        }


def burned(talk: Talk) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of a burn-in, and its rounds as they were told."""
    told: list[dict[str, Any]] = []
    load = TorchLoad(talk, dict.fromkeys(HOSTS, "/usr/bin/python3"), NETWORK, (29500, 29545, 29590))
    document = BurnIn(load, lambda document, found: told.append({**found, "rounds": document["rounds"]}), talk.clock)
    return document.run(), told


def test_rounds_follow_each_other_until_the_time_is_up() -> None:
    talk = Talk(600.0)
    found, told = burned(talk)
    assert found["rounds"] == len(talk.asked) == len(told) >= 20
    assert -1e-9 <= talk.left_s < OVERHEAD_S + MOST_LOAD_S + 10, "no round had too little time, and none is missing"
    assert [row["round"] for row in told] == list(range(1, found["rounds"] + 1))
    assert found["began_s"][0] == 0
    assert found["hosts"]["h2"]["figures"]["speed of processors"] == [80.0] * found["rounds"]
    assert found["hosts"]["h2"]["counted"]["times_too_hot"] == [1.0] * found["rounds"]
    assert found["group"] == {"busbw": [0.5] * found["rounds"], "problems": []}
    assert found["hosts"]["h1"]["repeats"] == 10 * found["rounds"]


def test_a_short_one_has_several_short_rounds() -> None:
    talk = Talk(60.0)
    found, _ = burned(talk)
    assert found["rounds"] >= 4
    first = talk.asked[0]["h1"]["order"]
    assert LEAST_LOAD_S <= first["multiply"]["seconds"] + first["repeat"]["seconds"] < 6
    assert burned(Talk(5.0))[0]["rounds"] == 0


def test_each_round_repeats_on_the_processors_that_follow() -> None:
    talk = Talk(100.0)
    burned(talk)
    assert [fields["h3"]["order"]["repeat"]["first"] for fields in talk.asked[:3]] == [0, 10, 20]
    assert len({fields["h1"]["port"] for fields in talk.asked[:3]}) == 3, "a port may still be held by the round before"


def test_a_host_that_is_lost_leaves_the_others_and_all_lost_end_it() -> None:
    talk = Talk(200.0, gone={"h3": 2})
    found, _ = burned(talk)
    assert found["rounds"] > 4
    rows = found["hosts"]["h3"]
    assert rows["figures"]["speed of processors"][:3] == [80.0, None, None]
    assert rows["problems"][0] == [2, "the connection ended"]
    assert found["group"]["problems"][0][0] == 2
    assert len(found["group"]["problems"]) == 1, "the others go on without it"
    assert burned(Talk(200.0, gone=dict.fromkeys(HOSTS, 3)))[0]["rounds"] == 3


def test_a_group_that_hangs_once_is_a_problem_of_that_round() -> None:
    found, _ = burned(Talk(100.0, hung=(2,)))
    assert [number for number, _ in found["group"]["problems"]] == [2]
    assert found["group"]["busbw"][:3] == [0.5, None, 0.5]
