"""Collection and cleanup after the end: what could not be collected or removed is listed and kept."""

from __future__ import annotations

from ddp_play.guard.protocol import encode
from ddp_play.testing import refusal
from tests.unit.run.conftest import Make, done
from tests.unit.run.test_restart_loop import SHARED, by_attempt, ends_when_told, staged

__all__ = ["staged"]


def test_what_could_not_be_fetched_is_listed_and_kept(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    row = {"path": "big.pt", "why": "larger than what is left"}
    stage.far["h2"].answers["fetch"] = [
        encode("file", b"w", file="artifact", path="small.pt", last=False),
        encode("file", b"", file="artifact", path="small.pt", last=True),
        encode("fetched", missing=[row], artifacts=[{"path": "small.pt", "size": 1, "sha256": "x"}]),
    ]
    outcome = stage.supervisor().run()
    assert outcome.missing == ({"host": "h2", **row},)
    assert stage.far["h2"].order("clean")["keep_src"] is True
    assert stage.far["h1"].order("clean")["keep_src"] is False
    assert (stage.paths.artifacts / "h2" / "small.pt").read_bytes() == b"w"


def test_a_host_that_cannot_be_fetched_from_keeps_its_files(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    stage.far["h2"].answers["fetch"] = refusal("fetch", "Input/output error")
    outcome = stage.supervisor().run()
    assert outcome.missing == ({"host": "h2", "path": "results and artifacts", "why": "h2: Input/output error"},)
    assert [stage.far[name].order("clean")["keep_src"] for name in ("h1", "h2")] == [False, True]


def test_what_could_not_be_removed_is_listed(make: Make) -> None:
    stage = make(1, network="")
    done(stage, "h1")
    stage.far["h1"].answers["clean"] = [encode("cleaned", left=["container x: engine is down"])]
    stage.supervisor().run()
    assert stage.document["left_behind"] == {"h1": ["container x: engine is down"]}


def test_traffic_per_interface_is_in_run_json(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    stage.supervisor().run()
    carried = {"eth0": {"rx": 2_000_000, "tx": 1_000_000}}
    assert stage.document["network"] == {
        "fabric": "ethernet",
        "hosts": {name: {"planned": "eth0", "carried": carried} for name in ("h1", "h2")},
    }
    assert stage.document["nccl"] == {}


def test_what_a_lost_head_did_not_collect_stays_on_the_shared_directory(staged: Make) -> None:
    """Only the head collects from there, and its ranks may still write."""
    stage = staged(2, restarts=0, source="/code", host_timeout=0.6)
    by_attempt(stage, "h1", a1={"state": "running"})
    stage.far["h1"].answers["beat"] = []
    ends_when_told(stage, "h2")
    outcome = stage.supervisor().run()
    assert stage.far["h2"].order("clean")["run_paths"] == []
    assert any(row.startswith(f"{SHARED}: not collected") for row in outcome.left["h1"])
    assert stage.document["left_behind"] == outcome.left


def test_without_artifacts_there_another_host_removes_what_a_lost_head_leaves(staged: Make) -> None:
    stage = staged(2, restarts=0, host_timeout=0.6)
    by_attempt(stage, "h1", a1={"state": "running"})
    stage.far["h1"].answers["beat"] = []
    ends_when_told(stage, "h2")
    stage.supervisor().run()
    assert stage.far["h2"].order("clean")["run_paths"] == [SHARED]
