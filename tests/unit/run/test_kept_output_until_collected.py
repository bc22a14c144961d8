"""Files that a host could not send stay there, whatever happens to its cleanup, and run.json says so."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.bundle.paths import read_rows
from ddp_play.bundle.writer import Bundle
from ddp_play.guard.protocol import OVER_LIMIT, encode
from ddp_play.run.collect_and_clean import collect
from ddp_play.run.interrupted_attempt import conclude
from ddp_play.run.late_collection import LateResult
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.lost_host_files import LostHostFiles, collect_late, collect_uncollected
from ddp_play.testing import refusal
from tests.unit.run.conftest import KILLED, OK, Make, Stage, by_attempt, done, ends_when_told
from tests.unit.run.test_collect_and_clean import gang_of
from tests.unit.run.test_interrupted_attempt import LOST, cut

__all__ = ["cut"]  # a fixture

OVER: dict[str, Any] = {"path": "big.pt", "why": OVER_LIMIT, "size": 5 << 20}
FETCHED = [encode("fetched", artifacts=[], missing=[OVER])]
WAITS = {"incomplete": True, "artifacts_max_mib": 5}
COLLECTS = "ddp-play attach calm-otter-1 --artifacts-max-mib 5 collects what exceeds the limit"
ALONE: dict[str, Any] = {"mount": None, "source": "/code", "artifacts": ["*.pt"]}


def told_to_keep(stage: Stage, name: str) -> list[bool]:
    """keep_src of each order to clean."""
    return [header["keep_src"] for header, _ in stage.far[name].orders if header["t"] == "clean"]


def keeps_what_it_is_told(header: dict[str, Any], _payload: bytes) -> list[bytes]:
    return [encode("cleaned", left=[], kept=["/state/h1/src"] if header["keep_src"] else [])]


def test_a_host_whose_controller_was_lost_is_not_cleaned_again_without_them(cut: Any) -> None:
    stage = cut(**ALONE, lease=1.0)
    for name in ("h1", "h2"):
        stage.far[name].answers |= {"fetch": FETCHED, "clean": keeps_what_it_is_told}
    assert conclude(stage.paths, LOST)
    assert told_to_keep(stage, "h1") == [True]
    assert stage.document["uncollected"] == [{"attempt": 1, "host": name, **WAITS} for name in ("h1", "h2")]


def test_a_host_that_did_not_confirm_the_cleanup_keeps_them_before_a_restart(staged: Make) -> None:
    """The fence asked it again and told it to keep nothing."""
    stage = staged(2, 1, **ALONE, lease=30)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    by_attempt(stage, "h3", a2=OK)
    refused = iter([refusal("clean", "Input/output error")])

    def clean(header: dict[str, Any], payload: bytes) -> list[bytes]:
        return next(refused, None) or keeps_what_it_is_told(header, payload)

    stage.far["h1"].answers |= {"fetch": FETCHED, "clean": clean}
    outcome = stage.supervisor(token="").run()
    assert told_to_keep(stage, "h1")[:2] == [True, True]
    assert {"attempt": 1, "host": "h1", **WAITS} in stage.document["uncollected"]
    assert f"attempt 1: not all of it was collected; {COLLECTS}" in outcome.left["h1"]


def test_a_host_that_did_not_confirm_the_cleanup_still_has_them_at_the_end(make: Make) -> None:
    """The end of the run named `gc`, which removed the only copy."""
    stage = make(2, source="/code", artifacts=["*.pt"])
    for name in ("h1", "h2"):
        done(stage, name)
    stage.far["h2"].answers |= {"fetch": FETCHED, "clean": refusal("clean", "Input/output error")}
    assignment = stage.supervisor(token="").assignment
    outcome = stage.supervisor(token="").run()
    row = f"unknown: the host did not confirm the cleanup; when the host is back, {COLLECTS}"
    assert outcome.left == stage.document["left_behind"] == {"h2": [row]}
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2", **WAITS}]
    result = collect_late(assignment, {"h2"}, Bundle(stage.paths), newest=True, open_s=0.3)
    assert (result.incomplete, result.unconfirmed) == ({"h2": 5}, ("h2",))
    assert stage.document["left_behind"] == {"h2": [row]}
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2", **WAITS}]


def test_artifacts_of_a_lost_head_are_the_heads(make: Make) -> None:
    """Another host sends them from the directory that they share, and only for the head."""
    stage = make(2)
    stage.far["h2"].answers["fetch"] = FETCHED
    gang = gang_of(stage)
    gang.link("h1").lost = "silent"
    rows = collect(gang, stage.plan, stage.paths, for_head={"source": {"path": "/shared/src"}})
    assert [(row["host"], row["path"]) for row in rows if "size" in row] == [("h1", "big.pt")]


def test_another_supervisor_names_what_the_first_one_knew(make: Make) -> None:
    stage = make(2)
    LostHostFiles(Bundle(stage.paths)).note_incomplete(1, {"h1": 5})
    left: dict[str, list[str]] = {}
    assignment = dataclasses.replace(stage.supervisor().assignment, attempt=2)
    LostHostFiles(Bundle(stage.paths)).conclude(assignment, left, open_s=0.0)
    assert left == stage.document["left_behind"] == {"h1": [f"attempt 1: not all of it was collected; {COLLECTS}"]}


# -- attach with a limit that is too low ---------------------------------------------------------------


def sent(path: str, mib: int, *missing: dict[str, Any]) -> list[bytes]:
    """A host's reply to `fetch`: one artifact of so many MiB."""
    pieces = [encode("file", bytes(mib << 20), file="artifact", path=path, last=False)]
    pieces.append(encode("file", b"", file="artifact", path=path, last=True))
    rows = [{"path": path, "size": mib << 20, "sha256": "x"}]
    return [*pieces, encode("fetched", missing=list(missing), artifacts=rows)]


def over(path: str, mib: int) -> dict[str, Any]:
    return {"path": path, "why": OVER_LIMIT, "size": mib << 20}


def test_what_the_bundle_has_already_is_not_missing(make: Make) -> None:
    """A host sends its files by name, so that another one fits in with a higher limit."""
    stage = make(1, source="/code", artifacts=["*.pt"], artifacts_max_mib=2)
    stage.far["h1"].state = {}
    LostHostFiles(Bundle(stage.paths)).note_uncollected(1, ["h1"])
    assignment = stage.supervisor(token="").assignment
    for limit, reply in ((2, sent("b.pt", 1, over("a.pt", 3))), (3, sent("a.pt", 3, over("b.pt", 1)))):
        stage.far["h1"].answers |= {"fetch": reply, "clean": keeps_what_it_is_told}
        list(collect_uncollected(assignment, limit))
    assert sorted(row["path"] for row in read_rows(stage.paths.artifacts_manifest)) == ["a.pt", "b.pt"]
    assert (stage.document["missing"], stage.document["uncollected"]) == ([], [])
    assert told_to_keep(stage, "h1") == [True, False]


def test_a_limit_below_that_of_the_job_is_none(make: Make) -> None:
    stage = make(1, source="/code", artifacts_max_mib=7)
    done(stage, "h1")
    LostHostFiles(Bundle(stage.paths)).note_uncollected(1, ["h1"])
    list(collect_uncollected(stage.supervisor(token="").assignment, 3))
    assert stage.far["h1"].order("fetch")["max_bytes"] == 7 << 20


@pytest.fixture
def two_attempts(make: Make, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A host that still has files of two attempts, and sends them again in vain."""
    stage = make(1)
    lost = LostHostFiles(Bundle(stage.paths))
    lost.note_incomplete(1, {"h1": 9})
    lost.note_incomplete(2, {"h1": 6})

    class Fake:
        def __init__(self, assignment: Any, _hosts: set[str], **_: Any) -> None:
            self.attempt = assignment.attempt

        def run(self, *, open_s: float) -> LateResult:
            limit = 9 if self.attempt == 1 else 6
            return LateResult(("h1",), left={"h1": [f"/{self.attempt}: {limit}"]}, incomplete={"h1": limit})

    monkeypatch.setattr("ddp_play.run.lost_host_files.LateCollection", Fake)
    return stage


def test_files_of_two_attempts_on_a_host_are_both_named(two_attempts: Stage) -> None:
    stage = two_attempts
    assignment = dataclasses.replace(stage.supervisor(token="").assignment, attempt=2)
    list(collect_uncollected(assignment, 5))
    assert stage.document["left_behind"] == {"h1": ["/1: 9", LeftFiles("calm-otter-1").kept("attempt 2", 6)]}
