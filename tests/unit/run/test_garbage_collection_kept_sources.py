"""Sources that hosts keep for later runs: they are removed only on request, together with the leftovers."""

from __future__ import annotations

from typing import Any

from ddp_play.ansible.runner import Passwords
from ddp_play.run.garbage_collection import find_leftovers, remove_leftovers
from ddp_play.testing import FakePlaybookRunner
from tests.unit.run.test_garbage_collection import DEAD, REQUEST, answers, orders_of


def test_kept_sources_are_removed_only_on_request_and_with_the_leftovers() -> None:
    runner = FakePlaybookRunner(
        events=(
            answers("h1", {"runs": [DEAD], "containers": [], "sources_bytes": 5}),
            answers("h2", {"runs": [], "containers": [], "sources_bytes": 7}),
            answers("h3", {"runs": [], "containers": []}),
        )
    )
    found = find_leftovers(REQUEST, Passwords(), runner)
    assert found.sources == {"h1": 5, "h2": 7}
    seen: list[Any] = []
    for sources in (False, True):
        remove_leftovers(
            REQUEST,
            Passwords(),
            FakePlaybookRunner(
                work=lambda request: seen.append(orders_of(request)), events=(answers("h1", {"left": []}),)
            ),
            found,
            sources=sources,
        )
    assert seen[0] == {"h1": {"paths": [DEAD["path"]], "containers": [], "living_too": False}}
    assert seen[1]["h1"] == {**seen[0]["h1"], "sources": True}
    assert seen[1]["h2"] == {"paths": [], "containers": [], "living_too": False, "sources": True}
    assert "h3" not in seen[1]
