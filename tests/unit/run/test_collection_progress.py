"""How much has come is told now and then, and how long a collection may take depends on its size."""

from __future__ import annotations

import pytest

from ddp_play.engines.route import Route
from ddp_play.run.collection_progress import CollectionProgress, longest_s
from ddp_play.run.link import Link


def test_it_is_told_when_it_is_time_and_more_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("ddp_play.run.collection_progress.time.monotonic", lambda: now[0])
    links = [Link(name, Route(name, ("ssh", name), "channel")) for name in ("h1", "h2")]
    told: list[int] = []
    progress = CollectionProgress(links, told.append)
    for seconds, number in ((1, 500), (10, 500), (11, 0), (25, 7), (26, 7), (40, 0)):
        now[0] = 100.0 + seconds
        for link in links:
            link.files.accept({"file": "artifact", "path": "a", "last": False}, number)
        progress()
    assert told == [2000, 2014, 2028]


def test_large_artifacts_may_take_longer_than_an_hour() -> None:
    """The collection of 100 GiB over a link of 100 Mbit/s ended after one, and the rest counted as missing."""
    assert longest_s(1, 1) < 3700
    assert longest_s(1, 100 * 1024) > 100 * 1024 * 8.6 / 100 * 2
    assert longest_s(4, 1024) == 3600 + 4 * 1024 / 5
