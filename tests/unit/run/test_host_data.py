"""Data of hosts on their way into the bundle; frames of the other kinds are in test_supervisor.py."""

from __future__ import annotations

import json
from typing import Any

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.samples import SampleFile, read_samples
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import OK, Make


def sampled(*documents: Any) -> bytes:
    payload = b"".join(json.dumps(document).encode() + b"\n" for document in documents)
    return encode("samples", payload, uptime=110.0)


def test_samples_continue_after_the_newest_row_that_is_there(make: Make) -> None:
    stage = make(1, network="")
    asked = []

    def follow(header: Any, _payload: bytes) -> list[bytes]:
        asked.append(header["samples"])
        rows = [{"up": up, "s": 2.0, "cpu": 1.0} for up in (100.0, 102.0)]
        return [sampled({"cores": 4}, *rows, "nonsense"), stage.state("h1", "ended", **OK)]

    stage.far["h1"].answers["follow"] = follow
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    found = read_samples(stage.paths.samples("h1"))
    assert found.header == {"host": "h1", "cores": 4, "format": 1}
    assert [(row["up"], row["attempt"], row["cpu"]) for row in found.rows] == [(100.0, 1, 1.0), (102.0, 1, 1.0)]
    again = make(1, network="")  # in the same bundle
    again.state("h1", "running")
    again.far["h1"].answers["follow"] = follow
    again.supervisor().take_over()
    assert asked == [{"after": 0.0}, {"after": 102.0}]
    assert read_samples(again.paths.samples("h1")) == SampleFile(found.header, found.rows)
