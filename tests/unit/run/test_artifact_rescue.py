"""What earlier attempts left on the shared directory when no further attempt starts: collected, or named."""

from __future__ import annotations

import dataclasses
import errno
import json
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.paths import write_json
from ddp_play.errors import DdpPlayError, HostNotReady, Interrupted, NameTaken, SlotsTaken, UsageError
from ddp_play.guard.protocol import Header, encode
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run.artifact_rescue import Rescue
from ddp_play.run.attempt_assignment import Waiting
from ddp_play.run.host_links import Gang
from ddp_play.testing import refusal
from tests.unit.run.conftest import KILLED, OK, SHARED, Make, Stage, attempts_opened, by_attempt, ends_when_told

CHECKPOINT = [
    encode("file", b"weights", file="artifact", path="checkpoint-1.pt", last=False),
    encode("file", b"", file="artifact", path="checkpoint-1.pt", last=True),
    encode("fetched", missing=[], artifacts=[{"path": "checkpoint-1.pt", "size": 7, "sha256": "x"}]),
]


def killed_once(staged: Make, spares: int = 0, **values: Any) -> Stage:
    """Two hosts and a job with a source; the first attempt ends with a killed rank on h1."""
    stage = staged(2, spares, source="/code", **values)
    by_attempt(stage, "h1", a1=KILLED)
    ends_when_told(stage, "h2")
    stage.far["h1"].answers["fetch"] = fetch
    return stage


def fetch(header: Header, _payload: bytes) -> list[bytes]:
    """The shared working directory has a checkpoint, for whoever names the directory."""
    return CHECKPOINT if header.get("source") else [encode("fetched", missing=[], artifacts=[])]


def in_attempt(stage: Stage, host: str, kind: str, number: int, answer: list[bytes]) -> None:
    """What a host answers to one kind of order from this attempt on; before it is healthy."""
    healthy = stage.far[host]._healthy

    def obey(header: Header, _payload: bytes) -> list[bytes]:
        late = int(stage.far[host].order("open")["attempt"]) >= number
        return answer if late else healthy(kind, header)

    stage.far[host].answers[kind] = obey


@pytest.mark.parametrize(
    ("kind", "answer", "error"),
    [
        ("prepare", refusal("prepare", "0 of 1 slots free", error="slots"), SlotsTaken),
        ("prepare", refusal("prepare", "image x is not on this host"), HostNotReady),
        ("lease_port", refusal("lease_port", "no free port", error="busy"), DdpPlayError),
    ],
    ids=["slots", "image", "port"],
)
def test_a_refused_restart_collects_what_the_attempt_before_left(
    staged: Make, kind: str, answer: list[bytes], error: type[DdpPlayError]
) -> None:
    stage = killed_once(staged)
    in_attempt(stage, "h1", kind, 2, answer)
    with pytest.raises(error):
        stage.supervisor().run()
    assert (stage.paths.artifacts / "h1" / "checkpoint-1.pt").read_bytes() == b"weights"
    (row,) = json.loads((stage.paths.root / "artifacts.json").read_text())
    assert (row["host"], row["path"]) == ("h1", "checkpoint-1.pt")
    cleans = [(at, header["run_paths"]) for at, header in enumerate(orders(stage, "h1")) if header["t"] == "clean"]
    fetched = max(at for at, header in enumerate(orders(stage, "h1")) if header["t"] == "fetch")
    assert [paths for at, paths in cleans if at < fetched] == [[]] * (len(cleans) - 1), "nothing goes before it is safe"
    assert cleans[-1][1] == [SHARED]
    assert stage.document["left_behind"] == {}


def test_root_collects_with_the_rights_of_the_ranks_user(staged: Make) -> None:
    stage = killed_once(staged)
    stage.far["h1"].uid = 0
    in_attempt(stage, "h1", "lease_port", 2, refusal("lease_port", "busy", error="busy"))
    with pytest.raises(DdpPlayError):
        stage.supervisor().run()
    uid, gid = stage.plan.hosts[0].user
    assert stage.far["h1"].order("fetch")["user"] == {"uid": uid, "gid": gid, "groups": [gid]}


def orders(stage: Stage, host: str) -> list[Header]:
    """Every order that a host got, oldest first."""
    return [header for header, _ in stage.far[host].orders]


def test_a_stop_before_the_restart_has_started_collects_too(staged: Make) -> None:
    stage = killed_once(staged)

    def stopped_meanwhile(_header: Header, _payload: bytes) -> list[bytes]:
        if int(stage.far["h1"].order("open")["attempt"]) > 1:
            write_json(stage.paths.control / "stop", {"reason": "enough"})
        return [encode("prepared", guard_pid=1)]

    stage.far["h1"].answers["prepare"] = stopped_meanwhile
    with pytest.raises(Interrupted):
        stage.supervisor().run()
    assert (stage.paths.artifacts / "h1" / "checkpoint-1.pt").read_bytes() == b"weights"
    assert stage.far["h1"].order("clean")["run_paths"] == [SHARED]


def test_what_cannot_be_collected_stays_and_is_named(staged: Make) -> None:
    stage = killed_once(staged)
    in_attempt(stage, "h1", "prepare", 2, refusal("prepare", "image x is not on this host"))
    lost = [encode("fetched", missing=[{"path": "checkpoint-1.pt", "why": "I/O error"}], artifacts=[])]
    stage.far["h1"].answers["fetch"] = lost
    with pytest.raises(HostNotReady):
        stage.supervisor().run()
    assert all(header["run_paths"] == [] for header in orders(stage, "h1") if header["t"] == "clean")
    (row,) = stage.document["left_behind"]["h1"]
    assert row.startswith(f"{SHARED}: not all of it could be collected")
    assert stage.document["missing"] == [{"host": "h1", "path": "checkpoint-1.pt", "why": "I/O error"}]


def test_without_any_host_that_answers_it_is_named(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.artifact_rescue.OPEN_S", 0.3)
    monkeypatch.setattr("ddp_play.run.supervisor.OPEN_S", 0.3)
    stage = killed_once(staged)
    for name in ("h1", "h2"):
        in_attempt(stage, name, "open", 2, [])
    with pytest.raises(HostNotReady, match="no channel"):
        stage.supervisor().run()
    (row,) = stage.document["left_behind"]["h1"]
    assert row.startswith(f"{SHARED}: no host answers")


def test_every_try_has_a_number_of_its_own(staged: Make) -> None:
    """A head that fell silent after `prepare` cleans up by its number: it must not be that of a later try."""
    stage = killed_once(staged, 2, host_timeout=0.6)
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h1", a1=KILLED, a2=OK, a3=OK)
    stage.far["h1"].answers["stop"] = [encode("stopping")]
    stage.far["h3"].answers["prepare"] = refusal("prepare", "no space left on device")
    by_attempt(stage, "h4", a3=OK)
    stage.supervisor(settle_s=1.0).run()  # h2 has to be lost before the killed rank ends the gang
    assert stage.document["hosts"] == ["h1", "h4"]
    assert attempts_opened(stage, "h1")[-1] == 3
    assert attempts_opened(stage, "h4") == [3]
    assert [header["spec"]["continues"] for header in orders(stage, "h1") if header["t"] == "prepare"] == [
        False,
        True,
        True,
    ]


def test_a_first_attempt_that_is_refused_leaves_nothing(staged: Make) -> None:
    stage = killed_once(staged)
    stage.far["h2"].answers["prepare"] = refusal("prepare", "image x is not on this host")
    with pytest.raises(HostNotReady):
        stage.supervisor().run()
    assert [header["run_paths"] for header in orders(stage, "h1") if header["t"] == "clean"] == [[SHARED]]
    assert "fetch" not in stage.far["h1"].kinds()


def test_a_run_keeps_its_name_between_two_attempts(staged: Make) -> None:
    """Its hosts may know nothing of it then: a newcomer under the same name must not end it."""
    stage = killed_once(staged)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    in_attempt(stage, "h1", "claim", 2, refusal("claim", "run night of kim is running", error="name_taken"))
    assert stage.supervisor(waiting=Waiting(time.monotonic() + 60)).run().verdict.exit_code == 0
    assert stage.far["h1"].kinds().count("claim") == 1
    assert stage.far["h1"].kinds().count("queue") == 2, "for its place and its turn; the restart does not queue again"


def test_a_name_that_is_taken_touches_nothing(staged: Make) -> None:
    stage = killed_once(staged)
    stage.far["h2"].answers["claim"] = refusal("claim", "run night of kim is running here", error="name_taken")
    with pytest.raises(NameTaken) as caught:
        stage.supervisor(waiting=Waiting(time.monotonic() + 60)).run()
    assert caught.value.exit_code == 75
    for name in ("h1", "h2"):
        assert set(stage.far[name].kinds()) <= {"open", "claim", "bye"}


@pytest.mark.parametrize(
    ("frame", "path"),
    [
        (encode("file", b"x", file="artifact", path="../x", last=True), "../x"),
        (encode("file", b"x", file="artifact", path="y/" + "x" * 300, last=True), ("y/" + "x" * 300)[:200]),
        (encode("file", b"x", file="of another version", rank=0, last=True), "of another version of rank 0"),
    ],
    ids=["path", "name", "kind"],
)
def test_a_file_that_cannot_be_kept_stays_on_the_shared_directory(staged: Make, frame: bytes, path: str) -> None:
    stage = killed_once(staged)
    in_attempt(stage, "h1", "prepare", 2, refusal("prepare", "image x is not on this host"))
    stage.far["h1"].answers["fetch"] = lambda header, payload: (
        [frame, *CHECKPOINT] if header.get("source") else fetch(header, payload)
    )
    with pytest.raises(HostNotReady, match="image x"):
        stage.supervisor().run()
    assert stage.document["left_behind"]["h1"][0].startswith(f"{SHARED}: not")
    assert [row["path"] for row in stage.document["missing"]] == [path]
    assert (stage.paths.artifacts / "h1" / "checkpoint-1.pt").read_bytes() == b"weights", "the others are kept"


def test_a_full_disk_while_collecting_names_what_stays(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = killed_once(staged)
    in_attempt(stage, "h1", "prepare", 2, refusal("prepare", "image x is not on this host"))
    real = writer._append

    def append(path: Path, data: bytes) -> None:
        if path.suffix == ".part":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(writer, "_append", append)
    close = Gang.close

    def one_more(gang: Gang) -> None:  # pieces of the file are still under way when the collecting is given up
        if stage.far["h1"].kinds()[-1] == "fetch" and gang.attempt == 2:
            stage.far["h1"].channels[-1].arrive(CHECKPOINT[0])
            gang.pump(0.0)
        close(gang)

    monkeypatch.setattr(Gang, "close", one_more)
    with pytest.raises(HostNotReady, match="image x"):
        stage.supervisor().run()
    assert "No space left" in stage.document["left_behind"]["h1"][0]
    assert not list(stage.paths.artifacts.rglob("*.pt")), "no torn file has the name of a whole one"


def test_a_run_of_an_earlier_version_is_collected_from_where_its_plan_says(staged: Make) -> None:
    """Without a token, and with the run's id where there is a key now."""
    stage = killed_once(staged)
    in_attempt(stage, "h1", "prepare", 2, refusal("prepare", "image x is not on this host"))
    loop = stage.supervisor()
    assert loop.assignment.token == ""
    plan = json.loads(json.dumps(stage.plan.to_json()).replace("<run_key>", "<run_id>"))
    rescue = Rescue(
        dataclasses.replace(loop.assignment, plan=plan_from_json(plan)),
        loop.bundle,
        loop.stop_requests,
        loop.journal,
    )
    rescue.run()
    assert stage.far["h1"].order("fetch")["source"]["path"] == f"{SHARED}/src"


def test_a_controller_that_died_between_two_attempts_left_something(staged: Make) -> None:
    """Attempt 1 has its row and is gone from the hosts; what it left on the shared directory is found all the same."""
    stage = killed_once(staged)
    row = {"attempt": 1, "hosts": ["h1", "h2"], "fault": "h1", "retired": {}, "reason": "killed from outside"}
    write_json(stage.paths.run, {"id": "calm-otter-1", "status": "waiting", "attempt": 1, "attempts": [row]})
    with pytest.raises(UsageError, match="no host knows"):
        stage.supervisor().take_over()
    assert (stage.paths.artifacts / "h1" / "checkpoint-1.pt").read_bytes() == b"weights"
    assert stage.document["left_behind"] == {}


def test_no_attempt_follows_while_this_disk_is_full(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the ranks left waits on the hosts: another attempt would begin with cleaning them."""
    stage = killed_once(staged)
    real = writer._append

    def append(path: Path, data: bytes) -> None:
        if path.suffix == ".part":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(writer, "_append", append)
    monkeypatch.setattr("ddp_play.bundle.disk_space.DiskSpace.recover", lambda _room: False)
    piece = encode("file", b"{}", file="result.json", rank=0, last=True)
    stage.far["h1"].answers["fetch"] = [piece, encode("fetched", missing=[], artifacts=[])]
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "disk_full"
    assert attempts_opened(stage, "h1") == [1]
    assert "clean" not in stage.far["h1"].kinds()


def test_a_stop_while_a_lost_host_is_waited_for_names_what_is_there(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(2, 1, host_timeout=0.6, lease="1h", source="/code")
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})

    def silence(_header: Header, _payload: bytes) -> list[bytes]:
        stage.far["h2"].answers["open"] = []
        return []

    stage.far["h2"].answers["beat"] = silence
    loop = stage.supervisor()
    fence = loop._fence_ended_attempt

    def stopped(*arguments: Any) -> None:
        write_json(stage.paths.control / "stop", {"reason": "enough"})
        fence(*arguments)

    monkeypatch.setattr(loop, "_fence_ended_attempt", stopped)
    with pytest.raises(Interrupted, match="stopped while it waited"):
        loop.run()
    assert stage.document["left_behind"]["h2"][0].startswith("unknown: silent for")
    assert [row["host"] for row in stage.document["missing"]] == ["h2"]


def test_an_error_of_our_own_between_two_attempts_names_what_is_there(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = killed_once(staged)
    archive = writer.Bundle.archive

    def fails(*arguments: Any) -> None:
        archive(*arguments)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writer.Bundle, "archive", fails)
    with pytest.raises(OSError, match="No space left"):
        stage.supervisor().run()
    assert stage.document["left_behind"]["h1"][0].startswith(f"{SHARED}: not")


@pytest.mark.parametrize("returns", [True, False])
def test_a_host_that_was_lost_at_the_start_signal_is_cleaned_later_or_named(staged: Make, returns: bool) -> None:
    """Its ranks may have started, and no restart follows."""
    stage = staged(2, restarts=0)
    h2 = stage.far["h2"]

    def cut(*_: Any) -> list[bytes]:
        h2.channels[-1].cut("no route to host")
        h2.answers.update({} if returns else {"open": []})
        return []

    h2.answers["go"] = cut
    with pytest.raises(HostNotReady, match="h2: no route to host"):
        stage.supervisor().run()
    assert ("clean" in h2.kinds()) is returns
    rows = stage.document["left_behind"].get("h2", [])
    assert [row.startswith("unknown: the host did not confirm the cleanup") for row in rows] == [True] * (not returns)
