"""Evidence of a hang: what hosts capture, and where the stacks go."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.guard.protocol import encode
from ddp_play.run.hang_capture import locate
from ddp_play.run.stack_dumps import DUMP
from ddp_play.testing import refusal
from tests.unit.run.conftest import Make

STACK = f"""{DUMP}

Current thread 0x00007f (most recent call first):
  File "/app/train.py", line 12 in load_batch
  File "/app/train.py", line 40 in <module>
"""


def test_stacks_go_into_the_bundle_without_the_log_before_them(make: Make) -> None:
    paths: RunPaths = make(2).paths
    seen = {0: {"state": "S"}, 1: {"state": "T"}}
    found = locate(seen, {0: f"step 1\n{STACK}", 1: "step 1\n"}, paths)
    assert found[0].does == "is in load_batch at train.py:12"
    assert found[1].does == "is stopped by a signal"
    assert paths.evidence(0, "stack").read_text() == STACK
    assert not paths.evidence(1, "stack").exists()


def test_a_full_disk_costs_the_copies_only(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("ddp_play.run.hang_capture.write_text", full)
    assert locate({0: {"state": "S"}}, {0: STACK}, make(2).paths)[0].does == "is in load_batch at train.py:12"


def test_nothing_is_located_without_captured_ranks(make: Make) -> None:
    assert locate({}, {0: STACK}, make(1, network="").paths) == {}


def test_a_host_that_cannot_capture_is_a_warning_and_the_others_count(make: Make) -> None:
    stage = make(2, idle_timeout=0.3, timeout=0.3)
    for name in ("h1", "h2"):
        stage.ends_on_stop(name)
    stage.far["h1"].answers["capture"] = refusal("capture", "no /proc")
    stage.far["h2"].answers["capture"] = [encode("captured", ranks={"1": {"state": "T"}})]
    outcome = stage.supervisor().run()
    assert [event["message"] for event in stage.events("warning")] == ["no evidence from h1: no /proc"]
    assert outcome.verdict.kind == "idle"
    assert outcome.verdict.message.endswith("rank 1 is stopped by a signal")
