"""Collection and cleanup after the end: what could not be collected or removed is listed and kept."""

from __future__ import annotations

import errno
import hashlib
import json
from typing import Any

import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.guard.protocol import MAX_LINKS, MAX_MISSING, encode
from ddp_play.run import collect_and_clean
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.collect_and_clean import clean, collect, drain, rows_of
from ddp_play.run.host_links import Gang
from ddp_play.run.left_files import LeftFiles
from ddp_play.testing import refusal
from tests.unit.run.conftest import SHARED, Make, Stage, by_attempt, done, ends_when_told

LOST = "silent for 30 s"


def gang_of(stage: Stage, lost: str = "") -> Gang:
    """Open channels to all hosts but `lost`."""
    assignment = stage.supervisor().assignment
    gang = Gang(
        links_of(assignment, set(stage.far)),
        run_id="calm-otter-1",
        token="",
        attempt=1,
    )
    gang.reopen()
    gang.pump(0.0)
    for link in gang.links:
        assert link.place is not None
        if link.name == lost:
            link.lost = LOST
    return gang


@pytest.fixture
def two(make: Make) -> Stage:
    """Two hosts, artifacts and no shared directory."""
    return make(2, artifacts=["*.pt"], artifacts_max_mib=3, source="/code")


def test_a_damaged_log_is_named_and_nothing_kept_for_it(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    (rank,) = stage.ranks("h2")
    rows = [{"rank": rank, "why": "the rank truncated it"}, {"rank": 77, "why": "no rank of this host"}]
    stage.far["h2"].answers["drain"] = [encode("drained", id=0, counters={}, logs=rows)]
    outcome = stage.supervisor().run()
    assert outcome.missing == (
        {"host": "h2", "path": f"lines of the log of rank {rank}", "why": "the rank truncated it"},
    )
    assert {row.rank: row.log_complete for row in outcome.ranks} == {1 - rank: True, rank: False}
    assert stage.far["h2"].order("clean")["keep_src"] is False


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


def test_another_host_collects_from_the_shared_directory_for_a_lost_head(staged: Make) -> None:
    """The artifacts were left there until the head was back. It stays: ranks of the head may still write."""
    stage = staged(3, restarts=0, source="/code", host_timeout=0.6)
    by_attempt(stage, "h1", a1={"state": "running"})
    stage.far["h1"].answers["beat"] = []
    row = {"path": "w.pt", "size": 1, "sha256": hashlib.sha256(b"w").hexdigest()}
    piece = encode("file", b"w", file="artifact", path="w.pt", last=True)
    for name in ("h2", "h3"):
        ends_when_told(stage, name)
    stage.far["h2"].answers["fetch"] = [piece, encode("fetched", missing=[], artifacts=[row])]
    outcome = stage.supervisor().run()
    order = stage.far["h2"].order("fetch")
    assert (order["patterns"], order["source"]["path"], order["source"]["collect"]) == (["**"], f"{SHARED}/src", True)
    assert "source" not in stage.far["h3"].order("fetch")
    assert (stage.paths.artifacts / "h2" / "w.pt").read_bytes() == b"w"
    assert [stage.far[name].order("clean")["run_paths"] for name in ("h2", "h3")] == [[], []]
    assert any(row.startswith(f"{SHARED}: ranks on h1 may still write there") for row in outcome.left["h1"])
    assert stage.document["left_behind"] == outcome.left


def test_without_artifacts_there_another_host_removes_what_a_lost_head_leaves(staged: Make) -> None:
    stage = staged(2, restarts=0, host_timeout=0.6)
    by_attempt(stage, "h1", a1={"state": "running"})
    stage.far["h1"].answers["beat"] = []
    ends_when_told(stage, "h2")
    stage.supervisor().run()
    assert stage.far["h2"].order("clean")["run_paths"] == [SHARED]


# -- one step ------------------------------------------------------------------------------------------


def test_logs_that_were_not_read_to_the_end_are_rows_of_their_hosts(two: Stage) -> None:
    two.far["h2"].answers["drain"] = refusal("drain", "Input/output error")
    rows = drain(gang_of(two))
    assert rows == [{"host": "h2", "path": "the end of its ranks' logs", "why": "h2: Input/output error"}]
    assert two.far["h2"].kinds().count("drain") == 1, "only a host whose channel broke is asked again"


def test_a_lost_host_is_not_asked_for_its_logs(two: Stage) -> None:
    assert drain(gang_of(two, lost="h2")) == []
    assert "drain" not in two.far["h2"].kinds()


@pytest.mark.parametrize(("more", "patterns"), [({}, ["*.pt"]), ({"artifacts": False}, [])])
def test_a_host_is_told_what_to_send(two: Stage, more: dict[str, Any], patterns: list[str]) -> None:
    assert collect(gang_of(two), two.plan, two.paths, **more) == []
    order = two.far["h1"].order("fetch")
    assert (order["patterns"], order["max_bytes"]) == (patterns, 3 * 2**20)
    assert not (two.paths.root / "artifacts.json").exists()


def test_all_files_of_a_lost_host_are_one_row(two: Stage) -> None:
    rows = collect(gang_of(two, lost="h2"), two.plan, two.paths)
    assert rows == [{"host": "h2", "path": "all files that were not copied during the run", "why": LOST}]


def with_artifact(two: Stage) -> Gang:
    """h1 has sent `a.pt`, and says that it has sent `b.pt` too."""
    sent = [{"path": name, "size": 1, "sha256": "x"} for name in ("a.pt", "b.pt")]
    two.far["h1"].answers["fetch"] = [encode("fetched", missing=[], artifacts=sent)]
    gang = gang_of(two)
    assert gang.link("h1").files.accept({"t": "file", "file": "artifact", "path": "a.pt", "last": True}, 1)
    return gang


def test_only_artifacts_that_are_here_are_in_the_manifest(two: Stage) -> None:
    assert collect(with_artifact(two), two.plan, two.paths) == []
    (row,) = json.loads((two.paths.root / "artifacts.json").read_text())
    assert (row["host"], row["path"]) == ("h1", "a.pt")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_manifest_that_cannot_be_written(two: Stage, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A full disk costs the list only; anything else is an error of ours."""

    def fails(*_: Any) -> None:
        raise OSError(number, "cannot")

    gang = with_artifact(two)
    monkeypatch.setattr(collect_and_clean, "write_json", fails)
    if number == errno.ENOSPC:
        assert collect(gang, two.plan, two.paths) == [{"host": "", "path": "artifacts.json", "why": "cannot"}]
    else:
        with pytest.raises(OSError, match="cannot"):
            collect(gang, two.plan, two.paths)


def test_a_host_cannot_fill_the_list_of_missing_files(two: Stage) -> None:
    """One more than the limit is the row with the number of the others."""
    link = gang_of(two).link("h1")
    sent = [{"path": str(number), "why": "x"} for number in range(MAX_MISSING + 5)]
    missing, artifacts = rows_of(link, {"missing": sent})
    assert [row["path"] for row in missing] == [str(number) for number in range(MAX_MISSING + 1)]
    assert artifacts == []


def test_links_follow_the_artifacts_and_their_list_ends(two: Stage) -> None:
    link = gang_of(two).link("h1")
    sent = [{"path": str(number), "link_to": "x"} for number in range(MAX_LINKS + 5)]
    missing, artifacts = rows_of(link, {"links": sent})
    assert missing == []
    assert artifacts == [{"host": "h1", "path": str(number), "link_to": "x"} for number in range(MAX_LINKS)]


@pytest.mark.parametrize("restart_follows", [False, True])
def test_directories_that_were_kept_are_left_behind_unless_an_attempt_follows(
    two: Stage, restart_follows: bool
) -> None:
    two.far["h1"].answers["clean"] = [encode("cleaned", left=["container x: busy"], kept=["/state/src"])]
    missing = [{"host": "h1", "path": "a.pt", "why": "x"}, {"host": "", "path": "artifacts.json", "why": "full"}]
    gang = gang_of(two)
    for link in gang.links:
        link.replies |= {"drained": {}, "fetched": {}}
    left, kept = clean(gang, two.plan, missing, Journal(two.paths.events), restart_follows=restart_follows)
    row = LeftFiles("calm-otter-1").kept("/state/src")
    assert kept == {"h1": [row]}
    assert left == {"h1": ["container x: busy", *([] if restart_follows else [row])]}
    assert [two.far[name].order("clean")["keep_src"] for name in ("h1", "h2")] == [True, False]
    assert two.events("warning") == []


def test_a_host_that_refuses_the_cleanup_is_unknown(two: Stage) -> None:
    two.far["h2"].answers["clean"] = refusal("clean", "Input/output error")
    left, kept = clean(gang_of(two), two.plan, [], Journal(two.paths.events), restart_follows=False)
    assert (list(left), kept) == (["h2"], {})
    assert "the host did not confirm the cleanup; when the host is back" in left["h2"][0]
    (event,) = two.events("warning")
    assert event["message"] == "cleanup incomplete: h2: Input/output error"


@pytest.mark.parametrize(
    ("lost", "artifacts", "restart_follows", "removers"),
    [
        ("", [], False, ["h1"]),
        ("", ["*.pt"], False, ["h1"]),
        ("", [], True, []),
        ("h1", [], False, ["h2"]),
        ("h1", [], True, []),
        ("h1", ["*.pt"], False, []),
        ("h2", ["*.pt"], False, ["h1"]),
    ],
)
def test_one_host_removes_what_all_attempts_share_when_nothing_follows(
    staged: Make, lost: str, artifacts: list[str], restart_follows: bool, removers: list[str]
) -> None:
    stage = staged(2, source="/code", artifacts=artifacts)
    gang = gang_of(stage, lost)
    left, _ = clean(gang, stage.plan, [], Journal(stage.paths.events), restart_follows=restart_follows)
    paths = {name: stage.far[name].order("clean")["run_paths"] for name in ("h1", "h2") if name != lost}
    assert [name for name in paths if paths[name]] == removers
    assert all(paths[name] == [SHARED] for name in removers)
    assert list(left) == ([lost] if lost else [])
    named = any(row.startswith(f"{SHARED}: ranks on h1 may still write") for row in left.get(lost, ()))
    assert named is (lost == "h1" and bool(artifacts))


# -- a channel that breaks -----------------------------------------------------------------------------


def test_a_host_that_stays_away_is_not_waited_for_long(two: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)
    monkeypatch.setattr(collect_and_clean, "REOPEN_S", 0.2)
    gang = gang_of(two)
    two.far["h2"].answers["open"] = []
    two.far["h2"].channels[-1].cut("no route to host")
    left, _ = clean(gang, two.plan, [], Journal(two.paths.events), restart_follows=False)
    assert list(left) == ["h2"]
    (event,) = two.events("warning")
    assert event["message"] == "cleanup incomplete: h2: no answer for 0 s after its channel broke"
    assert two.far["h1"].kinds().count("clean") == 1


def test_what_has_come_is_told_meanwhile(two: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was said for minutes while large artifacts came."""
    monkeypatch.setattr("ddp_play.run.collection_progress.TELL_EVERY_S", 0.0)
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.0)
    gang, told = gang_of(two), list[int]()

    def fetch(*_: Any) -> list[bytes]:
        gang.link("h1").files.accept({"file": "artifact", "path": "w.pt", "last": False}, 5)
        return []

    two.far["h1"].answers |= {"fetch": fetch, "beat": [encode("fetched", artifacts=[], missing=[])]}
    before = gang.on_pump
    collect(gang, two.plan, two.paths, told=told.append)
    assert told == [5]
    assert gang.on_pump == before
