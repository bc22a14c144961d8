"""Whom a host looks at before the start: enough that what is wrong with one host is seen by several."""

from __future__ import annotations

from collections import Counter

import pytest

from ddp_play.run.peer_choice import FEW, peers_of


def test_of_a_few_hosts_each_looks_at_each() -> None:
    hosts = [f"h{n}" for n in range(FEW)]
    assert all(peers_of(name, hosts) == [other for other in hosts if other != name] for name in hosts)
    assert peers_of("h0", ["h0"]) == []


@pytest.mark.parametrize("number", [FEW + 1, 64])
def test_of_many_the_head_looks_at_all_and_each_is_seen_by_its_neighbors(number: int) -> None:
    hosts = [f"h{n}" for n in range(number)]
    looked = {name: peers_of(name, hosts) for name in hosts}
    assert len(looked["h0"]) == number - 1
    assert looked["h4"] == ["h0", "h3", "h5"]
    assert looked[hosts[-1]] == ["h0", hosts[-2]]
    seen = Counter(other for others in looked.values() for other in others)
    assert min(seen.values()) >= 2
    assert all(name in looked[other] for name in hosts for other in (hosts[hosts.index(name) - 1],) if other != "h0")
