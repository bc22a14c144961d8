"""A run between two attempts, when no further one follows: its name, a full disk, a stop, an error, a lost host."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady, Interrupted, NameTaken
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.attempt_assignment import Waiting
from ddp_play.testing import refusal
from tests.unit.run.conftest import (
    KILLED,
    OK,
    SHARED,
    Make,
    attempts_opened,
    by_attempt,
    ends_when_told,
    in_attempt,
    killed_once,
)


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
    assert stage.document["left_behind"]["h2"][0].startswith("unknown, also whether its ranks still run: silent for")
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
    assert ["the host did not confirm the cleanup" in row for row in rows] == [True] * (not returns)
