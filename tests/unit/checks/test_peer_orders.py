"""Orders with which hosts test their ways to one another: who listens where, and who connects to whom."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ddp_play.checks.fleet import ANY_JOB
from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.checks.peer_orders import listen, reach, within
from ddp_play.checks.time_budget import NO_LIMIT, TimeBudget
from tests.unit.checks.fleets import facts

NETWORK = PeerNetwork("10.0.0.0/24", (("h1", "10.0.0.1"), ("h2", "10.0.0.2")), (("h1", "eth0"), ("h2", "eth0")))
ANSWER = {"ports": [29500], "chosen": [40001], "datagram_port": 40002}
TOKENS = {name: ["/shared", "word", name] for name in ("h1", "h2")}


@dataclass
class Talk:
    """Hosts that answer `said`, and keep what they were asked."""

    said: Mapping[str, Any] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    budget: TimeBudget = NO_LIMIT
    asked: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert (kind, limit_s > 0) in (("check_listen", True), ("check_reach", True))
        self.asked = fields
        return {name: self.said.get(name, ANSWER) for name in fields}


def test_hosts_listen_each_with_a_word_of_its_own() -> None:
    found = listen(Talk(), NETWORK, ANY_JOB)
    assert found["h1"]["ports"] == [29500, 40001]
    assert found["h1"]["datagram_port"] == 40002
    assert found["h1"]["word"] != found["h2"]["word"]


@pytest.mark.parametrize("odd", [{}, {**ANSWER, "ports": [0]}, {**ANSWER, "ports": list(range(1, 99))}, {"ports": 3}])
def test_a_host_that_answers_something_else_is_lost(odd: dict[str, Any]) -> None:
    talk = Talk({"h2": odd})
    assert set(listen(talk, NETWORK, ANY_JOB)) == {"h1"}
    assert set(talk.lost) == {"h2"}


def test_each_host_is_sent_its_peers_with_the_smaller_mtu() -> None:
    talk = Talk()
    hosts = {"h1": facts(1), "h2": facts(2)}
    reach(talk, hosts, NETWORK, (listen(talk, NETWORK, ANY_JOB), TOKENS))
    (peer,) = talk.asked["h1"]["peers"]
    assert (peer["name"], peer["address"], peer["mtu"]) == ("h2", "10.0.0.2", 1500)
    assert (talk.asked["h1"]["token"], talk.asked["h1"]["others"]) == (TOKENS["h1"], ["h2"])
    assert "within_s" not in talk.asked["h1"]


def test_with_a_time_budget_readings_are_told_how_long_they_may_take() -> None:
    assert within(Talk()) == {}
    talk = Talk(budget=TimeBudget(20.0, time.monotonic() + 20.0))
    assert 0.1 <= within(talk)["within_s"] <= 10.0
