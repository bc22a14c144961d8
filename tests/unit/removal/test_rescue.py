"""Collecting and removing what all attempts share when no attempt follows: one host does it, or it is named."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.guard.protocol import encode
from ddp_play.run.artifact_rescue import Rescue
from ddp_play.run.stop_requests import StopRequests
from ddp_play.testing import refusal
from tests.unit.run.conftest import SHARED, Make, Stage, fetch, killed_once, make, staged

__all__ = ["make", "staged"]


def rescued(stage: Stage) -> Rescue:
    """A rescue after a second attempt that did not start."""
    loop = stage.supervisor()
    assignment = dataclasses.replace(loop.assignment, attempt=2)
    rescue = Rescue(assignment, loop.bundle, loop.stop_requests, loop.journal)
    rescue.run()
    return rescue


def test_a_rescue_says_what_it_does_and_keeps_to_the_limits_of_the_job(staged: Make) -> None:
    stage = killed_once(staged, artifacts_max_mib=3)
    rescue = rescued(stage)
    assert (rescue.missing, rescue.left) == ([], {})
    assert stage.document["status"] == "collecting"
    assert [event["phase"] for event in stage.events("phase")] == ["collecting"]
    order = stage.far["h1"].order("fetch")
    assert (order["max_bytes"], order["source"]["collect"]) == (3 * 2**20, True)
    assert stage.far["h1"].order("clean")["run_paths"] == [SHARED]


@pytest.mark.parametrize(("silent", "asked"), [(("h1",), "h2"), (("h1", "h2"), "h3"), ((), "h1")])
def test_one_host_collects_the_head_if_it_answers(staged: Make, silent: tuple[str, ...], asked: str) -> None:
    stage = staged(3, source="/code")
    for name in ("h1", "h2", "h3"):
        stage.far[name].answers["fetch"] = fetch
    for name in silent:
        stage.far[name].answers["open"] = []
    assert rescued(stage).left == {}
    assert [name for name in stage.far if "fetch" in stage.far[name].kinds()] == [asked]
    assert [name for name in stage.far if "clean" in stage.far[name].kinds()] == [asked]


def test_a_host_that_refuses_to_send_keeps_everything(staged: Make) -> None:
    stage = killed_once(staged)
    stage.far["h1"].answers["fetch"] = refusal("fetch", "Input/output error")
    rescue = rescued(stage)
    assert rescue.missing == [{"host": "h1", "path": f"{SHARED}/src", "why": "h1: Input/output error"}]
    assert rescue.left["h1"][0].startswith(f"{SHARED}: not collected: h1: Input/output error; copy what you need")
    assert "clean" not in stage.far["h1"].kinds()


def test_what_was_collected_and_could_not_be_removed_is_named(staged: Make) -> None:
    stage = killed_once(staged)
    stage.far["h1"].answers["clean"] = refusal("clean", "Input/output error")
    (row,) = rescued(stage).left["h1"]
    assert row.startswith(f"{SHARED}: collected, but not removed: h1: Input/output error")
    stage.far["h1"].answers["clean"] = [encode("cleaned", left=["/x: Device or resource busy"])]
    assert rescued(stage).left == {"h1": ["/x: Device or resource busy"]}


def test_nothing_is_removed_where_ranks_may_still_write(staged: Make) -> None:
    stage = killed_once(staged)
    loop = stage.supervisor()
    rescue = Rescue(dataclasses.replace(loop.assignment, attempt=2), loop.bundle, loop.stop_requests, loop.journal)
    rescue.run(unsafe=("h2",))
    assert rescue.left["h1"][0].startswith(f"{SHARED}: ranks may still write there from h2")
    assert (stage.paths.artifacts / "h1" / "checkpoint-1.pt").read_bytes() == b"weights"
    assert "clean" not in stage.far["h1"].kinds()


def test_a_document_that_cannot_be_written_leaves_all_in_place(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = killed_once(staged)
    monkeypatch.setattr(writer.Bundle, "update_run", lambda *_, **__: (_ for _ in ()).throw(ValueError("not a number")))
    assert rescued(stage).left["h1"][0].startswith(f"{SHARED}: not collected: not a number")
    assert stage.far["h1"].kinds() == []


NOT_NOW, NOW = SimpleNamespace(now=False), SimpleNamespace(now=True)


@pytest.mark.parametrize(
    ("before", "later", "ended"),
    [
        (None, None, False),
        (None, NOT_NOW, False),
        (None, NOW, True),
        (NOT_NOW, NOT_NOW, False),
        (NOT_NOW, NOW, True),
        (NOW, NOW, False),  # it ended the run before: the files are collected all the same
    ],
)
def test_only_a_stop_now_that_follows_ends_a_rescue(
    staged: Make, monkeypatch: pytest.MonkeyPatch, before: Any, later: Any, ended: bool
) -> None:
    loop = killed_once(staged).supervisor()
    order = [before]
    requests = StopRequests(loop.paths)
    monkeypatch.setattr(requests, "stop", lambda: order[0])
    rescue = Rescue(loop.assignment, loop.bundle, requests, loop.journal)
    order[0] = later
    assert rescue._interruption("open") == ("stopped with stop --now" if ended else "")
