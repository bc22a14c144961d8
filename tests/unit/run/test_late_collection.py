"""Late collection over fake hosts: what is asked of a host that is back, what arrives, and what is removed when."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from ddp_play.bundle.paths import read_rows, write_json
from ddp_play.guard.protocol import OVER_LIMIT, encode
from ddp_play.run.late_collection import LateCollection, LateResult
from ddp_play.testing import refusal
from tests.unit.build import shared
from tests.unit.run.conftest import Make, Stage, done

SHARED = "/shared/.ddp-play/calm-otter-1"
WEIGHTS = b"weights"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.late_collection.POLL_S", 0.02)
    monkeypatch.setattr("ddp_play.run.lost_hosts.POLL_S", 0.02)
    monkeypatch.setattr("ddp_play.run.lost_hosts.STOP_SLACK_S", 0.3)
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.05)


def artifact(host: str, path: str = "w.pt", *, last: bool = True, missing: tuple[Any, ...] = ()) -> list[bytes]:
    """A host's reply to `fetch`: one artifact."""
    row = {"path": path, "size": len(WEIGHTS), "sha256": hashlib.sha256(WEIGHTS).hexdigest()}
    piece = encode("file", WEIGHTS, file="artifact", path=path, last=last)
    return [piece, encode("fetched", artifacts=[row], missing=list(missing))]


def ended(stage: Stage, host: str, log: bytes = b"late words\n") -> None:
    """The guard of the host has ended its ranks; their logs are still there."""
    done(stage, host, log)
    stage.state(host, "ended", state="exited", exit_code=137)
    stage.far[host].answers["fetch"] = artifact(host)


def collect(stage: Stage, *hosts: str, newest: bool = True, **more: Any) -> LateResult:
    assignment = stage.supervisor(token="", **more).assignment
    return LateCollection(assignment, set(hosts), newest=newest).run(open_s=0.3)


def test_what_a_host_still_has_comes_into_the_bundle_and_is_removed_there(make: Make) -> None:
    stage = make(3, source="/code")
    (rank,) = stage.ranks("h2")
    stage.paths.log(rank).write_bytes(b"late ")
    write_json(stage.paths.artifacts_manifest, [{"host": "h1", "path": "w.pt"}, {"host": "h2", "path": "old.pt"}])
    ended(stage, "h2")
    result = collect(stage, "h2")
    assert (result.collected, result.missing, result.left, result.away) == (("h2",), (), {}, {})
    assert stage.far["h2"].order("follow")["logs"] == {str(rank): 5}
    assert stage.paths.log(rank).read_bytes() == b"late words\n"
    assert result.log_bytes == {rank: 11}
    assert (stage.paths.artifacts / "h2" / "w.pt").read_bytes() == WEIGHTS
    listed = [(row["host"], row["path"]) for row in read_rows(stage.paths.artifacts_manifest)]
    assert listed == [("h1", "w.pt"), ("h2", "w.pt")], "rows of other hosts stay"
    assert stage.far["h2"].kinds() == ["open", "follow", "end", "drain", "fetch", "clean", "bye"]
    assert stage.far["h2"].order("clean")["keep_src"] is False
    assert stage.far["h1"].orders == stage.far["h3"].orders == []


def test_a_damaged_log_is_named_and_its_host_is_cleaned(make: Make) -> None:
    stage = make(2, source="/code")
    (rank,) = stage.ranks("h2")
    ended(stage, "h2")
    stage.far["h2"].answers["drain"] = [encode("drained", counters={}, logs=[{"rank": rank, "why": "truncated"}])]
    result = collect(stage, "h2")
    assert (result.collected, result.damaged) == (("h2",), (rank,))
    assert result.missing == ({"host": "h2", "path": f"lines of the log of rank {rank}", "why": "truncated"},)
    assert stage.far["h2"].order("clean")["keep_src"] is False


def test_files_of_an_earlier_attempt_come_into_its_own_folder(make: Make) -> None:
    """With the ranks of that attempt's plan."""
    stage = make(2, source="/code")
    put = stage.paths.attempt(1)
    write_json(put.plan, stage.plan.to_json())
    ended(stage, "h2")
    assert collect(stage, "h2", newest=False).collected == ("h2",)
    assert (put.artifacts / "h2" / "w.pt").read_bytes() == WEIGHTS
    assert put.log(stage.ranks("h2")[0]).read_bytes() == b"late words\n"
    assert not stage.paths.artifacts.exists()


@pytest.mark.parametrize(("newest", "patterns", "removed"), [(True, ["**"], [SHARED]), (False, [], [])])
def test_directories_that_attempts_share_go_with_the_last_one(
    make: Make, newest: bool, patterns: list[str], removed: list[str]
) -> None:
    stage = make(2, source="/code", facts={"shared": shared()})
    for host in ("h1", "h2"):
        ended(stage, host)
    collect(stage, "h1", "h2", newest=newest)
    assert stage.far["h1"].order("fetch")["patterns"] == patterns
    assert stage.far["h1"].order("clean")["run_paths"] == removed
    assert stage.far["h2"].order("clean")["run_paths"] == []


def test_hosts_that_do_not_answer_are_named_and_the_others_collected(make: Make) -> None:
    stage = make(3)
    ended(stage, "h2")
    stage.far["h3"].answers["open"] = []
    result = collect(stage, "h2", "h3", "h9")
    assert result.collected == ("h2",)
    assert result.away == {"h3": "no answer for 0 s", "h9": "no route to it is known"}
    assert collect(stage, "h3") == LateResult(away={"h3": "no answer for 0 s"})


def test_a_host_whose_channel_breaks_is_named_with_the_reason(make: Make) -> None:
    stage = make(2)

    def refuse(*_: Any) -> list[bytes]:
        stage.far["h2"].channels[-1].cut("Permission denied (publickey)")
        return []

    stage.far["h2"].answers["open"] = refuse
    assert collect(stage, "h2").away == {"h2": "Permission denied (publickey)"}


def test_a_request_to_stop_ends_the_wait_for_hosts(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["open"] = []
    asked: list[str] = []

    def interruption(kind: str) -> str:
        asked.append(kind)
        return "stopped with stop --now"

    assignment = stage.supervisor(token="").assignment
    began = time.monotonic()
    result = LateCollection(assignment, {"h2"}, newest=True, interruption=interruption).run(open_s=30.0)
    assert list(result.away) == ["h2"]
    assert time.monotonic() - began < 10
    assert asked == ["open"]


def test_a_host_without_files_is_not_called_collected(make: Make) -> None:
    """gc --run removed them, or the host was set up again; what is missing stays missing."""
    stage = make(2)
    stage.far["h2"].has_files = False
    assert collect(stage, "h2") == LateResult(gone=("h2",))
    assert stage.far["h2"].kinds() == ["open"]


def test_logs_that_an_earlier_cleanup_removed_are_not_called_complete(make: Make) -> None:
    stage = make(2, source="/code")
    ended(stage, "h2")
    opened: dict[str, Any] = {"key": "calm-otter-1", "dir": "/state/h2", "secrets": "/shm/h2", "clock": 0.0, "uid": 0}
    answer = encode("opened", **opened, guard_alive=False, state={}, has_files=True, has_logs=False)
    stage.far["h2"].answers["open"] = [answer]
    result = collect(stage, "h2")
    assert (result.collected, result.without_logs, result.log_bytes) == (("h2",), ("h2",), {})


def test_a_host_that_refuses_is_named_with_its_reason(make: Make) -> None:
    stage = make(2)
    stage.far["h2"].answers["open"] = refusal("open", "written by ddp-play 9", hint="use that version")
    assert collect(stage, "h2").away == {"h2": "written by ddp-play 9 -> use that version"}


def test_ranks_that_still_live_are_stopped_first(make: Make) -> None:
    stage = make(2, lease="1h", grace="1s")
    stage.ends_on_stop("h2")
    stage.far["h2"].answers["fetch"] = artifact("h2")
    assert collect(stage, "h2").collected == ("h2",)
    assert [kind for kind in stage.far["h2"].kinds() if kind in ("stop", "drain", "clean")] == [
        "stop",
        "drain",
        "clean",
    ]


def test_ranks_that_outlived_their_guard_end_before_their_files_are_read(make: Make) -> None:
    stage = make(3)
    for host in ("h2", "h3"):
        ended(stage, host)
        stage.state(host, "running")
        stage.far[host].guard_gone = True
        stage.on_follow(host)
    stage.far["h3"].answers["end"] = [encode("ended", left=["rank 2: process 7 did not end after SIGKILL"])]
    result = collect(stage, "h2", "h3")
    assert (result.collected, result.away) == (("h2",), {"h3": "its ranks did not end"})
    assert stage.far["h2"].kinds().index("end") < stage.far["h2"].kinds().index("drain")
    assert "clean" not in stage.far["h3"].kinds()


def test_nothing_is_removed_while_ranks_live(make: Make) -> None:
    stage = make(2, grace=0.1)
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["stop"] = [encode("stopping")]
    assert collect(stage, "h2").away == {"h2": "its ranks did not end"}
    assert "clean" not in stage.far["h2"].kinds()


@pytest.mark.parametrize("kind", ["drain", "fetch"])
def test_nothing_is_removed_from_a_host_that_did_not_send_all(make: Make, kind: str) -> None:
    stage = make(2)
    ended(stage, "h2")
    stage.far["h2"].answers[kind] = [
        encode("refused", order=kind, message="I/O error", error="host_not_ready", hint="")
    ]
    assert list(collect(stage, "h2").away) == ["h2"]
    assert "clean" not in stage.far["h2"].kinds()


def test_a_host_that_is_lost_again_is_named_with_that_reason(make: Make) -> None:
    """Nothing is removed from it; the files of the other host are collected."""
    stage = make(3)
    for host in ("h2", "h3"):
        ended(stage, host)
    (rank,) = stage.ranks("h2")
    beyond = encode("log", b"after a gap", rank=rank, at=1000)
    stage.far["h2"].answers["drain"] = [beyond, encode("drained", counters={})]
    result = collect(stage, "h2", "h3")
    assert result.collected == ("h3",)
    assert result.away["h2"].startswith("it sent a piece beyond the end of a file: ")
    assert "clean" not in stage.far["h2"].kinds()
    assert "clean" in stage.far["h3"].kinds()


def test_nothing_is_removed_when_a_piece_could_not_be_stored(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make(2)
    ended(stage, "h2")

    def full(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("ddp_play.bundle.writer._append", full)
    assert "Input/output error" in collect(stage, "h2").away["h2"]
    assert "clean" not in stage.far["h2"].kinds()


def test_a_directory_with_files_over_a_limit_stays_and_is_named(make: Make) -> None:
    stage = make(2)
    ended(stage, "h2")
    stage.far["h2"].answers["fetch"] = artifact("h2", missing=({"path": "big.pt", "why": "too large"},))
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["container x"], kept=["/state/src"])]
    result = collect(stage, "h2")
    assert result.missing == ({"host": "h2", "path": "big.pt", "why": "too large"},)
    assert result.incomplete == {"h2": 0}
    assert stage.far["h2"].order("clean")["keep_src"] is True
    assert result.left == {
        "h2": [
            "container x",
            "/state/src: not all of it was collected; ddp-play attach calm-otter-1 tries again, "
            "ddp-play gc -i INVENTORY --run RUN --yes removes it for good",
        ]
    }


def test_artifacts_come_with_a_higher_limit_than_that_of_the_job(make: Make) -> None:
    stage = make(2, artifacts_max_mib=1)
    ended(stage, "h2")
    size = {"path": "big.pt", "why": OVER_LIMIT, "size": (2 << 20) - len(WEIGHTS)}
    stage.far["h2"].answers["fetch"] = artifact("h2", missing=(size,))
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=[], kept=["/state/src"])]
    assignment = stage.supervisor(token="").assignment
    result = LateCollection(assignment, {"h2"}, newest=True, limit_mib=3).run(open_s=0.3)
    assert stage.far["h2"].order("fetch")["max_bytes"] == 3 << 20
    assert (result.collected, result.incomplete) == (("h2",), {"h2": 2})
    command = "ddp-play attach calm-otter-1 --artifacts-max-mib 2 collects what exceeds the limit"
    assert result.left == {"h2": [f"/state/src: not all of it was collected; {command}"]}


def test_a_cleanup_that_is_not_confirmed_is_named(make: Make) -> None:
    stage = make(2)
    ended(stage, "h2")
    stage.far["h2"].answers["clean"] = refusal("clean", "no")
    result = collect(stage, "h2")
    assert result.collected == ("h2",)
    assert "did not confirm the cleanup" in result.left["h2"][0]
