"""Stop requests that nobody but the background process reads."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.run import playbook_stop
from ddp_play.run.playbook_stop import OWN_ACTION, PlaybookStop

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    monkeypatch.setattr(playbook_stop, "PATIENCE_S", 0)
    paths = RunPaths(tmp_path / "calm-otter-1")
    paths.create()
    return paths


def event(kind: str, action: str = OWN_ACTION) -> dict[str, Any]:
    return {"event": kind, "event_data": {"task_action": action}}


def request(paths: RunPaths, **more: bool) -> None:
    write_json(paths.stop_request(now=False), {"reason": "enough", **more})


def test_without_a_request_nothing_is_due(paths: RunPaths) -> None:
    stop = PlaybookStop(paths)
    assert not stop.is_due()
    assert not stop.requested


def test_a_request_is_due_before_and_after_the_action(paths: RunPaths) -> None:
    stop = PlaybookStop(paths)
    request(paths)
    stop.on_event(event("playbook_on_task_start", "ansible.builtin.setup"))
    assert stop.is_due()
    stop.on_event(event("playbook_on_task_start"))
    assert not stop.is_due()
    stop.on_event(event("runner_on_ok", "ansible.builtin.setup"))
    assert not stop.is_due()
    stop.on_event(event("runner_on_failed"))
    assert stop.is_due()
    assert stop.requested


def test_a_supervisor_reads_it_itself(paths: RunPaths) -> None:
    """Its event may be on its way, and with another strategy of the play there are several of them."""
    request(paths)
    with paths.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not PlaybookStop(paths).is_due()
    assert PlaybookStop(paths).is_due()


def test_an_order_of_the_engine_ends_no_run(paths: RunPaths) -> None:
    request(paths, requeue=True)
    assert not PlaybookStop(paths).is_due()


def test_a_new_request_is_not_due_at_once(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playbook_stop, "PATIENCE_S", 60)
    request(paths)
    assert not PlaybookStop(paths).is_due()
