"""A run between two allocations: what run.json says, and what is left of it if no attempt follows."""

from __future__ import annotations

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.run import requeue
from tests.unit.build import shared
from tests.unit.run.conftest import Make


def test_a_run_is_left_until_its_next_start_or_its_end(make: Make) -> None:
    stage = make(1)
    assert not requeue.is_left(stage.paths)
    assert requeue.reason(stage.paths) == ""
    requeue.leave(Bundle(stage.paths), "was preempted", attempt=2)
    assert requeue.is_left(stage.paths)
    assert requeue.reason(stage.paths) == "was preempted"
    document = stage.document
    assert (document["status"], document["directories"], requeue.next_attempt(document)) == ("waiting", {}, 3)
    write_json(stage.paths.run, {**document, "status": "stopped"})
    assert not requeue.is_left(stage.paths)


def test_only_some_allocations_come_back(make: Make) -> None:
    stage = make(1)
    assert not requeue.is_possible(stage.paths)
    stage.paths.engine.mkdir()
    write_json(stage.paths.allocation, {"requeues": True})
    assert requeue.is_possible(stage.paths)


def test_what_attempts_share_is_named_if_none_follows(make: Make) -> None:
    stage = make(1, facts={"shared": shared()})
    assert requeue.left_on_shared(stage.paths) == {}
    put = stage.paths.attempt(1)
    put.root.mkdir(parents=True)
    write_json(put.plan, stage.plan.to_json())
    write_json(stage.paths.run, {**stage.document, "attempts": [{"attempt": 1}]})
    rows = requeue.left_on_shared(stage.paths)
    assert list(rows) == ["h1"]
    assert "calm-otter-1: not collected, because no attempt followed" in rows["h1"][0]
    write_json(stage.paths.run, {**stage.document, "left_behind": {"h1": ["/tmp/x: not removed"], "h2": ["y"]}})
    for _ in range(2):
        requeue.note_left_on_shared(stage.paths)
        assert stage.document["left_behind"] == {"h1": ["/tmp/x: not removed", *rows["h1"]], "h2": ["y"]}
