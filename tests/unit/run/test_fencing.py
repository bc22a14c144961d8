"""The time after which no rank of an ended attempt can be alive on a host."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.run.fencing import FENCE_MARGIN_S, dead_after
from ddp_play.run.host_channel import Route
from ddp_play.run.link import Link
from tests.unit.build import hosts, plan

MADE = plan(*hosts(2), lease="60s", grace="10s")


@pytest.mark.parametrize(
    ("said", "waits_s"),
    [
        ({"lost": "silent for 30 s"}, 60 + 10 + FENCE_MARGIN_S),
        ({}, 60 + 10 + FENCE_MARGIN_S),
        ({"lost": "silent for 30 s", "replies": {"cleaned": {"left": []}}}, 60 + 10 + FENCE_MARGIN_S),
        ({"replies": {"cleaned": {"left": ["container x: engine is down"]}}}, float("inf")),
    ],
)
def test_a_silent_hosts_ranks_are_dead_after_lease_grace_and_margin(said: dict[str, Any], waits_s: float) -> None:
    """The time counts from the host's last message. A host that answers but could not clean up is never safe."""
    link = Link("h2", Route("h2", ("ssh", "h2"), "channel"), heard=1000.0, **said)
    assert dead_after(link, MADE) == 1000.0 + waits_s
