"""What the observer tells of hosts, once."""

from __future__ import annotations

from typing import Any

from ddp_play.guard.protocol import encode
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


def frame(state: dict[str, Any], **more: Any) -> bytes:
    return encode("state", state={**state, **more})
