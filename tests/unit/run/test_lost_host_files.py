"""Which hosts of which attempts are uncollected: run.json has it at any time, and collecting updates it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import Busy, Interrupted
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.late_collection import LateResult
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.lost_host_files import LostHostFiles, collect_late, collect_uncollected
from ddp_play.run.supervisor_lock import supervisor_lock
from ddp_play.run.waiting_files import WaitingFiles, uncollected, waiting_files
from ddp_play.testing import refusal
from tests.unit.run.conftest import OK, Make, Stage, by_attempt, ends_when_told

ROW: dict[str, Any] = {"path": "all files", "why": "silent"}


@pytest.fixture
def hosts_give(monkeypatch: pytest.MonkeyPatch) -> dict[int, LateResult | Exception]:
    """attempt -> what its hosts give when they are asked."""
    given: dict[int, LateResult | Exception] = {}

    class Fake:
        def __init__(self, assignment: Any, hosts: set[str], *, newest: bool, **more: Any) -> None:
            self.attempt, self.hosts = assignment.attempt, hosts

        def run(self, *, open_s: float) -> LateResult:
            result = given.get(self.attempt, LateResult(away=dict.fromkeys(self.hosts, "no answer")))
            if isinstance(result, Exception):
                raise result
            return result

    monkeypatch.setattr("ddp_play.run.lost_host_files.LateCollection", Fake)
    return given


def files(stage: Stage) -> LostHostFiles:
    return LostHostFiles(Bundle(stage.paths))


def conclude(stage: Stage, lost: LostHostFiles, last: int, left: dict[str, list[str]]) -> dict[str, list[str]]:
    assignment = dataclasses.replace(stage.supervisor().assignment, attempt=last)
    lost.conclude(assignment, left, open_s=0.0)
    return left


Given = dict[int, LateResult | Exception]


def test_run_json_names_the_hosts_at_once(make: Make) -> None:
    """A supervisor that takes over knows them too."""
    stage = make(2)
    files(stage).note_uncollected(1, ["h2"])
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2"}]
    files(stage).note_uncollected(2, ["h1"])
    assert uncollected(stage.document) == {(1, "h2"), (2, "h1")}


@pytest.mark.parametrize("row", ["kept", ""])
def test_a_host_that_was_cleaned_has_nothing_unless_a_directory_was_kept(make: Make, row: str) -> None:
    stage = make(2)
    lost = files(stage)
    lost.note_uncollected(1, ["h1", "h2"])
    lost.note_kept(1, {"h2": [row]} if row else {})
    lost.note_cleaned(1, {"h2"})
    assert ((1, "h2") in uncollected(stage.document)) == bool(row)


def test_hosts_of_earlier_attempts_are_asked_at_the_end_and_those_of_the_last_are_not(
    make: Make, hosts_give: Given
) -> None:
    stage = make(3)
    lost = files(stage)
    lost.note_uncollected(1, ["h2", "h3"])
    lost.note_uncollected(2, ["h1"])
    lost.note_uncleaned(1, {"h2": "silent", "h3": "silent too"})
    lost.note_kept(1, {"h2": ["/src: kept"]})
    hosts_give[1] = LateResult(("h2",), left={"h2": ["/src: too large"]}, away={"h3": "no answer"})
    hosts_give[2] = AssertionError("asked")
    left = conclude(stage, lost, 2, {"h1": ["unknown"]})
    assert left == {"h1": ["unknown"], "h2": ["/src: too large"], "h3": ["silent too"]}
    assert stage.document["left_behind"] == left
    assert uncollected(stage.document) == {(1, "h3"), (2, "h1")}


def test_hosts_of_an_attempt_that_did_not_start_are_asked_too(make: Make, hosts_give: Given) -> None:
    stage = make(2)
    lost = files(stage)
    lost.note_uncleaned(1, {"h2": "not confirmed"})
    hosts_give[1] = LateResult(("h2",))
    assert conclude(stage, lost, 1, {}) == {}


@pytest.mark.parametrize(("last", "stays"), [(1, []), (2, [{"host": "h2", **ROW}])])
def test_only_files_of_the_last_attempt_change_what_run_json_calls_missing(
    make: Make, hosts_give: Given, last: int, stays: list[dict[str, Any]]
) -> None:
    stage = make(2)
    Bundle(stage.paths).update_run(missing=[{"host": "h2", **ROW}])
    lost = files(stage)
    lost.note_uncleaned(1, {"h2": "not confirmed"})
    hosts_give[1] = LateResult(("h2",))
    conclude(stage, lost, last, {})
    assert stage.document["missing"] == stays


@pytest.mark.parametrize("error", [Interrupted("stopped"), OSError(28, "full"), ValueError("bad")])
def test_an_error_while_collecting_leaves_everything_named(make: Make, hosts_give: Given, error: Exception) -> None:
    stage = make(2)
    lost = files(stage)
    lost.note_uncollected(1, ["h2"])
    lost.note_uncleaned(1, {"h2": "silent"})
    hosts_give[1] = error
    assert conclude(stage, lost, 2, {}) == {"h2": ["silent"]}
    assert uncollected(stage.document) == {(1, "h2")}


def test_the_record_of_a_late_collection(make: Make, hosts_give: Given) -> None:
    """Verdict and status stay; files, logs and what is left are new."""
    stage = make(2)
    before = {"status": "failed", "verdict": {"kind": "host_lost"}, "attempt": 2}
    ranks = [{"rank": 0, "log_bytes": 3, "log_complete": False}, {"rank": 1, "log_bytes": 0, "log_complete": False}]
    write_json(
        stage.paths.run,
        {
            **before,
            "uncollected": [{"attempt": 1, "host": "h2"}, {"attempt": 2, "host": "h2"}, {"attempt": 2, "host": "h1"}],
            "missing": [{"host": "h1", **ROW}, {"host": "h2", **ROW}],
            "left_behind": {"h1": ["unknown"], "h2": ["unknown"]},
            "ranks": ranks,
        },
    )
    hosts_give[2] = LateResult(("h1", "h2"), ({"host": "h2", "path": "big", "why": "big"},), {}, {}, {1: 9})
    assignment = dataclasses.replace(stage.supervisor().assignment, attempt=2)
    collect_late(assignment, {"h1", "h2"}, Bundle(stage.paths), newest=True, open_s=0.0)
    document = stage.document
    assert {name: document[name] for name in before} == before
    assert uncollected(document) == {(1, "h2")}
    assert document["missing"] == [{"host": "h2", "path": "big", "why": "big"}]
    row = "attempt 1: not collected; ddp-play attach calm-otter-1 collects it"
    assert document["left_behind"] == {"h2": [row]}, "it is still there"
    assert document["ranks"] == [ranks[0], {"rank": 1, "log_bytes": 9, "log_complete": True}]


def test_what_is_missing_from_a_host_without_files_stays_missing(make: Make, hosts_give: Given) -> None:
    stage = make(3)
    missing = [{"host": "h1", **ROW}, {"host": "h2", **ROW}]
    rows = [{"attempt": 1, "host": "h1"}, {"attempt": 1, "host": "h2"}]
    write_json(stage.paths.run, {"uncollected": rows, "missing": missing, "left_behind": {"h1": ["unknown"]}})
    hosts_give[1] = LateResult(("h2",), without_logs=("h2",), gone=("h1",))
    collect_late(stage.supervisor().assignment, {"h1", "h2"}, Bundle(stage.paths), newest=True, open_s=0.0)
    assert (stage.document["uncollected"], stage.document["left_behind"]) == ([], {})
    assert stage.document["missing"] == missing


def test_an_earlier_attempt_is_recorded_in_its_own_outcome(make: Make, hosts_give: Given) -> None:
    stage = make(2)
    write_json(stage.paths.run, {"uncollected": [{"attempt": 1, "host": "h2"}], "missing": [{"host": "h2", **ROW}]})
    put = stage.paths.attempt(1)
    write_json(put.outcome, {"missing": [{"host": "h2", **ROW}], "ranks": []})
    hosts_give[1] = LateResult(("h2",))
    collect_late(stage.supervisor().assignment, {"h2"}, Bundle(stage.paths), newest=False, open_s=0.0)
    assert read_json(put.outcome)["missing"] == []
    assert stage.document["missing"] == [{"host": "h2", **ROW}], "of the last attempt"


# -- hosts that kept what they could not send ----------------------------------------------------------

OVER = {"host": "h1", "path": "w.pt", "why": "too large"}
LINES = {"host": "h1", "path": "lines of the log of rank 0", "why": "truncated"}


def test_what_could_not_be_sent_is_not_asked_for_again_at_the_end_of_the_run(make: Make, hosts_give: Given) -> None:
    """It would send the same again, up to the limit."""
    stage = make(2)
    lost = files(stage)
    lost.note_incomplete(1, {"h1": 7, "h2": 0})
    lost.note_kept(1, {"h1": ["/src: kept"]})
    lost.note_cleaned(1, {"h1"})
    hosts_give[1] = AssertionError("asked")
    again = LeftFiles("calm-otter-1").kept("attempt 1")
    assert conclude(stage, lost, 2, {}) == {"h1": ["/src: kept"], "h2": [again]}
    first = {"attempt": 1, "host": "h1", "incomplete": True, "artifacts_max_mib": 7}
    assert stage.document["uncollected"] == [first, {"attempt": 1, "host": "h2", "incomplete": True}]
    assert waiting_files(stage.document) == {(1, "h1"): WaitingFiles(True, 7), (1, "h2"): WaitingFiles(True)}


@pytest.mark.parametrize(("limit_mib", "asked"), [(0, ["h2"]), (7, ["h1", "h2"])])
def test_attach_asks_hosts_that_kept_too_much_only_with_a_limit(
    make: Make, hosts_give: Given, limit_mib: int, asked: list[str]
) -> None:
    stage = make(2)
    files(stage).note_incomplete(1, {"h1": 7, "h2": 0})
    ((_, result),) = collect_uncollected(stage.supervisor().assignment, limit_mib)
    assert sorted(result.away) == asked


def test_the_record_of_a_host_that_kept_some_files(make: Make, hosts_give: Given) -> None:
    """Its logs were complete before, and what is known of them stays."""
    stage = make(2)
    lost = files(stage)
    lost.note_incomplete(1, {"h1": 7})
    Bundle(stage.paths).update_run(missing=[OVER, LINES], left_behind={"h1": ["/src: 7"]})
    assignment = stage.supervisor().assignment
    rest = {**OVER, "path": "x.pt"}
    hosts_give[1] = LateResult(("h1",), (rest,), {"h1": ["/src: 9"]}, without_logs=("h1",), incomplete={"h1": 9})
    collect_late(assignment, {"h1"}, Bundle(stage.paths), newest=True, open_s=0.0)
    assert stage.document["missing"] == [LINES, rest]
    assert stage.document["left_behind"] == {"h1": ["/src: 9"]}
    assert waiting_files(stage.document) == {(1, "h1"): WaitingFiles(True, 9)}
    hosts_give[1] = LateResult(("h1",), without_logs=("h1",))
    collect_late(assignment, {"h1"}, Bundle(stage.paths), newest=True, open_s=0.0)
    assert (stage.document["missing"], stage.document["left_behind"]) == ([LINES], {})
    assert waiting_files(stage.document) == {}


def test_attach_asks_for_the_last_attempt_first(make: Make, hosts_give: Given) -> None:
    stage = make(3)
    rows = [(1, "h2"), (2, "h1"), (2, "h3")]
    write_json(stage.paths.run, {"uncollected": [{"attempt": number, "host": host} for number, host in rows]})
    hosts_give[2] = LateResult(("h1",), away={"h3": "no answer"})
    assignment = dataclasses.replace(stage.supervisor().assignment, attempt=2)
    found = list(collect_uncollected(assignment))
    assert [(attempt, sorted(result.away)) for attempt, result in found] == [(2, ["h3"]), (1, ["h2"])]
    assert uncollected(stage.document) == {(1, "h2"), (2, "h3")}


def test_two_processes_do_not_collect_at_once(make: Make) -> None:
    stage = make(2)
    with supervisor_lock(stage.paths), pytest.raises(Busy):
        list(collect_uncollected(stage.supervisor().assignment))


@pytest.mark.parametrize("back", [True, False])
def test_a_lost_host_that_comes_back_keeps_what_nobody_has_collected(staged: Make, back: bool) -> None:
    """It is cleaned of all else at once, and they are collected at the end of the run."""
    stage = staged(2, 1, host_timeout=0.6, lease="1h", mount=None, source="/code")
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    told: list[bool] = []
    broken = refusal("fetch", "Input/output error")

    def clean(header: Header, _payload: bytes) -> list[bytes]:
        told.append(header["keep_src"])
        by_attempt(stage, "h2", a1={"state": "exited", "exit_code": 137})
        stage.far["h2"].answers["fetch"] = [encode("fetched", artifacts=[], missing=[])] if back else broken
        return [encode("cleaned", left=[], kept=["/state/h2/logs"] if header["keep_src"] else [])]

    stage.far["h2"].answers["clean"] = clean
    by_attempt(stage, "h3", a2=OK)
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert told == ([True, False] if back else [True])
    row = "/state/h2: not collected; ddp-play attach calm-otter-1 collects it"
    assert outcome.left == ({} if back else {"h2": [row]})
    assert stage.document["uncollected"] == ([] if back else [{"attempt": 1, "host": "h2"}])
    assert stage.document["left_behind"] == outcome.left
