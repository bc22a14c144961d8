"""A run whose controller died, taken over from the states of its hosts and from the verdict that was stored."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import encode
from ddp_play.run import judged_outcome
from tests.unit.run.conftest import KILLED, OK, Make, by_attempt, done


def test_a_run_is_taken_over_from_the_states_of_its_hosts(make: Make) -> None:
    stage = make(2)
    stage.paths.log(0).write_bytes(b"first ")
    for name in ("h1", "h2"):
        stage.state(name, "running")
    stage.far["h1"].answers["follow"] = lambda header, _: [
        encode("log", b"second", rank=0, at=header["logs"]["0"]),
        stage.state("h1", "ended", **OK),
    ]
    stage.on_follow("h2", encode("state", state={**stage.far["h2"].state}))
    stage.far["h2"].answers["follow"] = lambda *_: [stage.state("h2", "ended", **OK)]
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.paths.log(0).read_bytes() == b"first second"
    assert "prepare" not in stage.far["h1"].kinds()


def test_a_run_that_no_host_knows_cannot_be_taken_over(make: Make) -> None:
    with pytest.raises(UsageError, match="no host knows run calm-otter-1"):
        make(2).supervisor().take_over()


def test_a_run_whose_start_signal_never_came_ends(make: Make) -> None:
    """Its guards have ended; attach must not wait for ranks that were never started."""
    stage = make(2)
    row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "no start signal came", "started": None}
    for name in ("h1", "h2"):
        stage.far[name].answers["follow"] = [stage.state(name, "ended", reason="no start signal came", **row)]
    outcome = stage.supervisor().take_over()
    assert outcome.status is RunStatus.FAILED
    assert outcome.verdict.message == "rank 0 on h1 was ended: no start signal came"


def test_guards_that_wait_for_the_start_signal_are_ended(make: Make) -> None:
    """Heartbeats of the new supervisor kept them waiting, with their slots, for ever."""
    stage = make(2)
    for name in ("h1", "h2"):
        stage.state(name, "prepared", state="created")

        def stop(_header: Any, _payload: bytes, name: str = name) -> list[bytes]:
            row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "stopped before it started"}
            return [encode("stopping"), stage.state(name, "ended", reason="stopped before it started", **row)]

        stage.far[name].answers |= {"follow": [], "stop": stop}
    outcome = stage.supervisor().take_over()
    assert (outcome.status, outcome.verdict.kind) == (RunStatus.FAILED, "lease")
    assert outcome.verdict.message.startswith("the controller died before all hosts had the start signal")


def test_a_host_that_was_cleaned_already_is_not_waited_for(make: Make) -> None:
    """The controller was killed while it cleaned up after an attempt that nobody had judged."""
    stage = make(2, host_timeout=0.5)
    stage.state("h2", "ended", **OK)
    stage.on_follow("h2", stage.state("h2", "ended", **OK))
    stage.on_follow("h1")
    outcome = stage.supervisor().take_over()
    assert outcome.verdict.kind == "host_lost"
    assert "the host has no files of this attempt any more" in outcome.verdict.message


@pytest.mark.parametrize("known", [["h2"], []], ids=["one host is clean", "all hosts are clean"])
def test_the_verdict_survives_a_controller_that_dies_while_it_cleans_up(make: Make, known: list[str]) -> None:
    """A run that had succeeded hung in attach, or ended as unknown to all hosts."""
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)

    def die(_header: Any, _payload: bytes) -> list[bytes]:
        raise KeyboardInterrupt

    stage.far["h1"].answers["clean"] = die
    with pytest.raises(KeyboardInterrupt):
        stage.supervisor().run()
    assert stage.document["status"] == "collecting"
    del stage.far["h1"].answers["clean"]
    for name in ("h1", "h2"):
        stage.far[name].state = {}
        stage.on_follow(name)
    for name in known:
        stage.state(name, "ended", **OK)
    outcome = stage.supervisor().take_over()
    assert outcome.status is RunStatus.SUCCEEDED
    assert [row.exit_code for row in outcome.ranks] == [0, 0]
    assert stage.document["status"] == "succeeded"
    assert not stage.paths.outcome.exists()


def test_an_attempt_whose_verdict_was_stored_is_not_counted_again_as_one_without_progress(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(2)
    counted: list[Any] = []
    monkeypatch.setattr("ddp_play.run.restart_loop.attempt_progress.note_end", lambda *row: counted.append(row))
    for name in ("h1", "h2"):
        stage.state(name, "ended", **KILLED)
        by_attempt(stage, name, a1=[], a2=OK)
    ranks = (RankOutcome(0, "h1", "exited", exit_code=137, signal=9), RankOutcome(1, "h2", "exited", exit_code=143))
    verdict = Verdict("rank_failed", "rank 0 on h1 failed first", 137, rank=0, host="h1")
    judged_outcome.store(stage.paths, 1, Outcome(RunStatus.FAILED, verdict, ranks))
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.document["attempt"] == 2
    assert counted == []


def test_ranks_of_a_host_that_is_back_are_stopped_before_their_files_are_collected(make: Make) -> None:
    """The verdict was known when the controller died: it was lost then. Cleaning gave its ranks 5 s."""
    stage = make(2)
    done(stage, "h1")
    stage.state("h1", "ended", **OK)
    stage.ends_on_stop("h2")
    judged_outcome.store(stage.paths, 1, Outcome(RunStatus.FAILED, Verdict("host_lost", "host h2 was lost", 69)))
    outcome = stage.supervisor().take_over()
    assert outcome.verdict.message == "host h2 was lost"
    kinds = stage.far["h2"].kinds()
    assert kinds.index("stop") < kinds.index("drain") < kinds.index("fetch") < kinds.index("clean")
