"""What the observer tells of hosts, once."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.guard.protocol import encode
from ddp_play.run.host_frames import MAX_CHANGES
from tests.unit.run.conftest import OK, Make

PROBLEM = "/var/lib/ddp-play/runs/night/1.h2: No space left on device"


def test_a_host_that_cannot_store_logs_is_named_once(make: Make) -> None:
    stage = make(2)
    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    running = [stage.state("h2", "running") for _ in range(3)]
    full = [frame(stage.far["h2"].state, disk_problem=problem) for problem in (PROBLEM, PROBLEM, "")]
    stage.on_follow("h2", *running[:1], *full[:2])
    beats = iter([full[2], stage.state("h2", "ended", **OK)])
    stage.far["h2"].answers["beat"] = lambda _header, _payload: [next(beats, b"")]
    assert stage.supervisor().run().verdict.kind == "done"
    said = [row["message"] for row in stage.events("warning") if row["message"].startswith("h2: ")]
    assert len(said) == 2
    assert PROBLEM in said[0]
    assert "can be written again" in said[1]


def test_a_host_cannot_fill_the_journal_with_its_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.0)
    stage = make(2)
    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    first = stage.state("h2", "running")
    running = stage.far["h2"].state
    over = stage.state("h2", "ended", **OK)
    stage.far["h2"].state = {}
    supervisor = stage.supervisor()
    turns = iter(range(3 * MAX_CHANGES))

    def flips(_header: Any, _payload: bytes) -> list[bytes]:
        turn = next(turns, None)
        return [over] if turn is None else [frame(running, disk_problem=PROBLEM if turn % 2 else "")]

    stage.on_follow("h2", first)
    stage.far["h2"].answers["beat"] = flips
    assert supervisor.run().verdict.kind == "done"
    assert len([row for row in stage.events("warning") if row["message"].startswith("h2: ")]) == MAX_CHANGES


def frame(state: dict[str, Any], **more: Any) -> bytes:
    return encode("state", state={**state, **more})
