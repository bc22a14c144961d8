"""What a host that is not ours to trust may send to the controller: frames, states and files, over fake channels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import Outcome, RunStatus
from ddp_play.errors import HostNotReady
from ddp_play.guard import protocol
from ddp_play.guard.protocol import encode
from ddp_play.run import controller_disk_full, host_files, supervisor
from tests.unit.run.conftest import OK, Make, Stage, done
from tests.unit.run.conftest import make as make  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    pass

RUNNING = {"state": "running"}


def header(**fields: Any) -> bytes:
    """A frame whose header is not made by our own code."""
    return json.dumps(fields).encode() + b"\n"


def state(**row: Any) -> bytes:
    """A state frame of rank 1 with these values."""
    return header(t="state", state={"phase": "running", "ranks": {"1": {**RUNNING, **row}}})


def opening(**fields: Any) -> bytes:
    """The answer of a host to `open`, about the run of these tests."""
    known = {"key": "calm-otter-1", "dir": "/state", "secrets": "/shm", "clock": 0.0, "uid": 0, "guard_alive": False}
    return header(t="opened", **{**known, **fields})


# What a host sends in place of its ranks' state -> what the verdict says of it.
NONSENSE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"\xff\xfe\x00nonsense\n", "bytes that are no frame"),
    "invalid UTF-8": (b'{"t": "log\xc3\x28"}\n', "bytes that are no frame"),
    "deep JSON": (b'{"t": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "bytes that are no frame"),
    "a list": (b"[1, 2]\n", "bytes that are no frame"),
    "a number of 10,000 digits": (b'{"t": "log", "n": ' + b"9" * 10_000 + b"}\n", "bytes that are no frame"),
    "a huge frame": (header(t="log", rank=1, at=0, n=1 << 40), "a frame of more than 16 MiB"),
    "a negative size": (header(t="log", rank=1, at=0, n=-5), "a header without a size"),
    "a size that is no number": (header(t="log", rank=1, at=0, n="9"), "a header without a size"),
    "no kind": (header(rank=1), "a frame of the kind None"),
    "a kind that is no text": (header(t={"a": 1}), "a frame of the kind"),
    "a negative offset": (header(t="log", rank=1, at=-1), "the value -1 in at"),
    "an offset that is no number": (header(t="log", rank=1, at="0"), "the value '0' in at"),
    "a rank of another host": (header(t="log", rank=0, at=0), "rank 0, which runs on another host"),
    "a rank that is not there": (header(t="metrics", rank=10**9, at=0), "rank 1000000000"),
    "a rank that is no number": (header(t="nccl", rank=[1], at=0), "in rank"),
    "a state that is none": (header(t="state", state=[]), "in place of an object"),
    "ranks that are none": (header(t="state", state={"phase": "running", "ranks": {"x": {}}}), "no rank"),
    "an exit code that is none": (state(state="exited", exit_code="0"), "in exit_code"),
    "an exit code out of range": (state(state="exited", exit_code=10**9), "in exit_code"),
    "a signal out of range": (state(state="exited", signal=-9), "in signal"),
    "a time that is none": (state(started="yesterday"), "in started"),
    "a state of a rank that is none": (state(state="flying"), "in state"),
    "a state of another run": (
        header(t="state", state={"phase": "ended", "ranks": {}, "key": "night.0123456789abcdef"}),
        "a frame state of run 'night.0123456789abcdef', which is not calm-otter-1",
    ),
    "a disk problem that is none": (header(t="state", state={"phase": "x", "disk_problem": [1]}), "in disk_problem"),
    "a state that is none at the opening": (opening(state=[]), "in place of an object"),
    "ranks that are none at the opening": (opening(state={"phase": "running", "ranks": {"0": 5}}), "in ranks"),
    "kernel lines that are none": (state(kernel={"a": "b"}), "in kernel"),
    "an answer without its fields": (header(t="beat"), "no field guard_gone"),
    "a file without a rank": (header(t="file", file="result.json", last=True), "without its rank"),
    "samples without the host's uptime": (header(t="samples"), "no field uptime"),
    "a file without an end": (header(t="file", file="result.json", rank=1), "no field last"),
}


@pytest.mark.parametrize(("frame", "words"), NONSENSE.values(), ids=NONSENSE)
def test_a_host_that_sends_nonsense_is_lost_and_named(make: Make, frame: bytes, words: str) -> None:
    """The run ends with a verdict, the other host's ranks are stopped and collected."""
    stage = make(2)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"), frame)
    outcome = stage.supervisor().run()
    assert (outcome.status, outcome.verdict.kind, outcome.verdict.host) == (RunStatus.FAILED, "host_lost", "h2")
    assert words in outcome.verdict.message
    assert "is the program on this host ours?" in outcome.verdict.message
    assert stage.far["h1"].kinds()[-3:] == ["fetch", "clean", "bye"]
    assert {row["host"] for row in stage.document["missing"]} == {"h2"}
    assert "h2" in stage.document["left_behind"]
    assert len(stage.far["h2"].channels) == 1, "no other channel is opened to it"
    assert [event["why"] for event in stage.events("host") if event["state"] == "lost"] == [_why(stage)]


def _why(stage: Stage) -> str:
    return next(str(row["detail"]) for row in stage.document["ranks"] if row["host"] == "h2")


def test_a_state_without_a_phase_is_that_of_a_host_without_a_guard(make: Make) -> None:
    stage = make(2)
    stage.ends_on_stop("h1")
    frames = iter([[stage.state("h2", "running"), opening(state={"x": 1})]])
    stage.far["h2"].answers["follow"] = lambda *_: next(frames, [])
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host) == ("host_lost", "h2")


@pytest.mark.parametrize("kind", ["open", "claim", "lease_port", "prepare", "go"])
def test_nonsense_before_the_start_is_a_refusal(make: Make, kind: str) -> None:
    stage = make(2)
    stage.far["h1"].answers[kind] = [b'{"t": "opened", "dir": 1}\n']
    with pytest.raises(HostNotReady, match="h1: it sent a frame opened with"):
        stage.supervisor().run()
    assert "follow" not in stage.far["h2"].kinds()


@pytest.mark.parametrize("key", ["calm-otter-1.0123456789abcdef", "night", None])
def test_a_channel_about_another_run_is_refused(make: Make, key: str | None) -> None:
    """The same name with another token, another name, none."""
    stage = make(2)
    other = {"phase": "ended", "ranks": {"0": {"state": "exited", "exit_code": 0}}}
    stage.far["h1"].answers["open"] = [opening(state=other, key=key)]
    with pytest.raises(HostNotReady, match=r"h1: it sent a frame opened (of run|with no field key)"):
        stage.supervisor(token="fedcba9876543210").run()
    assert "prepare" not in stage.far["h2"].kinds()


def test_a_kind_of_a_later_version_is_left_alone(make: Make) -> None:
    stage = make(1, network="")
    done(stage, "h1")
    stage.far["h1"].answers["follow"] = [
        *(header(t=f"kind-{number}", of="a later version") for number in range(1000)),
        *stage.far["h1"].answers["follow"],  # type: ignore[misc]
    ]
    run = stage.supervisor()
    assert run.run().status is RunStatus.SUCCEEDED


def collected(stage: Stage, *frames: bytes, artifacts: tuple[str, ...] = ()) -> Outcome:
    """The outcome of a run whose only host sends these frames when its files are fetched."""
    done(stage, "h1")
    rows = [{"path": path, "size": 1, "sha256": "x"} for path in artifacts]
    stage.far["h1"].answers["fetch"] = [*frames, encode("fetched", missing=[], artifacts=rows)]
    return stage.supervisor().run()


def artifact(path: str, data: bytes = b"x", *, last: bool = True) -> bytes:
    """A piece of an artifact."""
    return encode("file", data, file="artifact", path=path, last=last)


PATHS = {
    "../run.json": "its path is not below the working directory",
    "a/../../run.json": "its path is not below the working directory",
    "/etc/cron.d/job": "its path is not below the working directory",
    "": "its path is not below the working directory",
    ".": "its path is not below the working directory",
    "a//b": "its path is not below the working directory",
    "a\x00b": "its name has control characters",
    "a\nb": "its name has control characters",
    "\x1b]8;;http://evil\x07": "its name has control characters",
    "\x9b2J": "its name has control characters",
    "a\ud800b": "its name is no text",
    "n" * 256: "its path is longer than 2048 bytes, or a name in it longer than 255",
    "ü" * 128: "its path is longer than 2048 bytes, or a name in it longer than 255",
    "/".join(["d" * 200] * 11): "its path is longer than 2048 bytes, or a name in it longer than 255",
    "/".join("d" * 65): "it is nested deeper than 64 directories",
}


@pytest.mark.parametrize(("path", "why"), PATHS.items(), ids=[ascii(path)[:20] for path in PATHS])
def test_a_path_that_is_not_kept_is_missing_and_the_run_succeeds(make: Make, path: str, why: str) -> None:
    stage = make(1, network="")
    outcome = collected(stage, artifact(path), artifact("model.pt"), artifacts=(path, "model.pt"))
    assert outcome.status is RunStatus.SUCCEEDED
    assert stage.document["missing"] == [{"host": "h1", "path": path[:200], "why": why}]
    assert [file.name for file in stage.paths.artifacts.rglob("*") if file.is_file()] == ["model.pt"]
    assert [row["path"] for row in json.loads((stage.paths.root / "artifacts.json").read_text())] == ["model.pt"]
    assert stage.far["h1"].order("clean")["keep_src"], "what was not collected stays on the host"


@pytest.mark.parametrize("name", ["n" * 250, "n" * 251, "n" * 255, "ü" * 127, "a/" + "n" * 255])
def test_long_names_are_collected(make: Make, name: str) -> None:
    """`.NAME.part` was longer than a name may be, and that error ended the supervisor."""
    stage = make(1, network="")
    assert collected(stage, artifact(name), artifacts=(name,)).status is RunStatus.SUCCEEDED
    assert (stage.paths.artifacts / "h1" / name).read_bytes() == b"x"
    assert stage.document["missing"] == []


def test_a_file_in_place_of_a_directory_is_missing(make: Make) -> None:
    stage = make(1, network="")
    frames = [artifact("a"), artifact("a/b"), artifact("c/d"), artifact("c"), artifact("model.pt")]
    assert collected(stage, *frames).status is RunStatus.SUCCEEDED
    assert [row["path"] for row in stage.document["missing"]] == ["a/b", "c"]
    assert all("cannot be written here" in row["why"] for row in stage.document["missing"])
    assert not list(stage.paths.artifacts.rglob("*.part"))


def test_an_endless_artifact_ends_at_the_jobs_limit(make: Make) -> None:
    stage = make(1, network="", artifacts_max_mib=1)
    pieces = [artifact("endless", bytes(256 * 1024), last=False) for _ in range(40)]
    assert collected(stage, *pieces, artifact("small"), artifacts=("endless",)).status is RunStatus.SUCCEEDED
    assert stage.document["missing"] == [
        {"host": "h1", "path": "endless", "why": "exceeds the rest of ddp_job_artifacts_max_mib"}
    ]
    assert not (stage.paths.root / "artifacts.json").exists()
    assert sum(path.stat().st_size for path in stage.paths.artifacts.rglob("*") if path.is_file()) < 1 << 20


def test_an_endless_result_ends_at_its_limit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(protocol.FILE_LIMITS, "result.json", 1 << 20)
    stage = make(1, network="")
    pieces = [encode("file", bytes(256 * 1024), file="result.json", rank=0, last=False) for _ in range(40)]
    assert collected(stage, *pieces).status is RunStatus.SUCCEEDED
    assert stage.document["missing"][0]["why"] == "larger than 1 MiB, the limit for this kind of file"
    assert not stage.paths.result(0).exists()


def test_more_artifacts_than_the_limit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_files, "MAX_ARTIFACTS", 50)
    monkeypatch.setattr(host_files, "MAX_MISSING", 20)
    stage = make(1, network="")
    names = tuple(f"f{number}" for number in range(5000))
    assert collected(stage, *map(artifact, names), artifacts=names).status is RunStatus.SUCCEEDED
    assert len(list((stage.paths.artifacts / "h1").iterdir())) == 50
    assert len(stage.document["missing"]) == 20
    assert stage.document["missing"][0]["why"] == "h1 sent more than 50 artifacts"


def test_a_file_that_is_sent_twice_stays_as_it_was(make: Make) -> None:
    stage = make(1, network="")
    frames = [artifact("model.pt", b"good"), artifact("model.pt", b"torn"), encode("log", b"log\n", rank=0, at=0)]
    assert collected(stage, *frames, *frames).status is RunStatus.SUCCEEDED
    assert (stage.paths.artifacts / "h1" / "model.pt").read_bytes() == b"good"
    assert stage.document["missing"] == [{"host": "h1", "path": "model.pt", "why": "h1 sent it twice"}]
    assert stage.paths.log(0).read_bytes() == b"log\n"


def test_nonsense_while_files_are_fetched_loses_no_verdict(make: Make) -> None:
    stage = make(2)
    done(stage, "h1", exit_code=7)
    done(stage, "h2")
    stage.far["h1"].answers["fetch"] = [b"nonsense\n"]
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == ("rank_failed", 7)
    (row,) = stage.document["missing"]
    assert (row["host"], row["path"]) == ("h1", "results and artifacts")
    assert "bytes that are no frame" in row["why"]


def test_pieces_beyond_the_end_are_asked_for_again_and_not_for_ever(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MAX_GAPS", 5)
    monkeypatch.setattr(controller_disk_full, "FOLLOW_AGAIN_S", 0.0)
    stage = make(1, network="")
    stage.on_follow("h1", encode("log", b"x", rank=0, at=100), stage.state("h1", "running"))
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "host_lost"
    assert "6 pieces beyond the end of a file" in outcome.verdict.message
    assert stage.far["h1"].kinds().count("follow") == 6


def test_a_rank_that_changes_its_state_for_ever_fills_no_journal(make: Make) -> None:
    stage = make(1, network="")
    flips = iter(range(300))

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        number = next(flips, None)
        how = {**OK} if number is None else {"state": ("created", "running")[number % 2]}
        phase = "ended" if number is None else "running"
        return [encode("beat", guard_gone=False), stage.state("h1", phase, **how)]

    stage.on_follow("h1", stage.state("h1", "running"))
    stage.far["h1"].answers["beat"] = beat
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ddp_play.run.host_links.BEAT_S", 0.0)
        stage.supervisor().run()
    assert len(stage.events("rank")) <= 20


def test_long_texts_are_cut(make: Make) -> None:
    stage = make(1, network="")
    stage.on_follow("h1", stage.state("h1", "ended", **{**OK, "exit_code": 3, "detail": "x" * 10**6}))
    stage.far["h1"].state = {}
    outcome = stage.supervisor().run()
    assert outcome.verdict.exit_code == 3
    assert len(outcome.verdict.message) < 5000
