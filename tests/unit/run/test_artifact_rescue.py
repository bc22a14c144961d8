"""What earlier attempts left on the shared directory when no further attempt starts: collected, or named."""

from __future__ import annotations

import dataclasses
import errno
import json
from pathlib import Path

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.paths import write_json
from ddp_play.errors import DdpPlayError, HostNotReady, Interrupted, SlotsTaken, UsageError
from ddp_play.guard.protocol import Header, encode
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run.artifact_rescue import Rescue
from ddp_play.run.host_links import Gang
from ddp_play.testing import refusal
from tests.unit.run.conftest import (
    CHECKPOINT,
    KILLED,
    OK,
    SHARED,
    Make,
    Stage,
    attempts_opened,
    by_attempt,
    fetch,
    in_attempt,
    killed_once,
)


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
    stage.supervisor(settle_s=60.0).run()  # h2 has to be lost before the killed rank ends the gang
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
