"""What Slurm says about a job, in its own words of 22.05, and what follows from it."""

from __future__ import annotations

from datetime import datetime

import pytest

from ddp_play.engines import slurm_states
from ddp_play.engines.interface import Phase
from ddp_play.engines.slurm_commands import fields_of
from ddp_play.engines.slurm_states import (
    accounting_state,
    cause_of_signal,
    ending,
    job_state,
    place_in_queue,
)

PENDING = (
    "JobId=4 JobName=calm-otter UserId=ana(1000) Priority=42 JobState=PENDING Reason={reason} Dependency=(null) "
    "Requeue=0 ExitCode=0:0 DerivedExitCode=3:0 StartTime={start} EndTime=Unknown Partition=main NodeList= BatchHost="
)


@pytest.mark.parametrize(
    ("reason", "start", "words"),
    [
        (
            "Resources",
            "2026-11-25T18:05:08",
            "Resources (the nodes are in use), 2nd, estimated start 2026-11-25 18:05:08",
        ),
        ("None", "Unknown", "not looked at yet, 2nd, no estimated start"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "Unknown", "ReqNodeNotAvail (nodes that it needs are down, drained"),
        ("NewReason", "Unknown", "NewReason, 2nd, no estimated start"),
    ],
)
def test_why_a_job_waits(reason: str, start: str, words: str) -> None:
    state = job_state(fields_of(PENDING.format(reason=reason, start=start)), "2nd")
    assert (state.phase, state.never) == (Phase.PENDING, "")
    assert state.text.startswith(words)


@pytest.mark.parametrize("reason", ["PartitionNodeLimit", "PartitionTimeLimit", "QOSMaxNodePerJobLimit"])
def test_what_never_starts_is_told_from_what_waits(reason: str) -> None:
    assert job_state(fields_of(PENDING.format(reason=reason, start="Unknown"))).never


@pytest.mark.parametrize(
    ("word", "exit_code", "code", "kind"),
    [
        ("CANCELLED", "0:15", 130, "stopped"),
        ("TIMEOUT", "0:15", 124, "max_duration"),
        ("NODE_FAIL", "1:0", 69, "host_lost"),
        ("PREEMPTED", "0:15", 75, "busy"),
        ("OUT_OF_MEMORY", "0:125", 137, "rank_failed"),
        ("FAILED", "0:53", 69, "host_not_ready"),
        ("FAILED", "69:0", 69, "host_not_ready"),
        ("FAILED", "0:9", 70, "internal"),
        ("COMPLETED", "0:0", 70, "internal"),
        ("", "", 70, "internal"),
    ],
)
def test_states_become_our_exit_codes(word: str, exit_code: str, code: int, kind: str) -> None:
    found = ending(word, exit_code, "n1")
    assert (found.exit_code, found.kind) == (code, kind)
    assert job_state({"JobState": word, "ExitCode": exit_code, "BatchHost": "n1"}).ending == found


def test_a_directory_that_a_node_lacks_names_the_variable_that_moves_it() -> None:
    found = ending("FAILED", "0:53", "n2")
    assert (found.exit_code, found.words) == (69, "could not write to the run's directory on n2: is it shared?")
    assert "set DDP_PLAY_HOME" in found.hint


def test_a_running_job_is_granted() -> None:
    state = job_state({"JobState": "RUNNING", "NodeList": "n[1-2]"})
    assert (state.phase, state.text, state.ending) == (Phase.GRANTED, "on n[1-2]", None)


def test_the_accounting_knows_jobs_that_the_controller_forgot() -> None:
    found = accounting_state("CANCELLED by 1000|0:15\n")
    assert found is not None
    assert found.ending is not None
    assert found.ending.exit_code == 130
    assert accounting_state("\n") is None


def test_the_place_in_the_queue() -> None:
    assert place_in_queue("9 gpu\n4 gpu\n7 gpu\n", "4") == "number 2 of 3 pending in gpu"
    assert place_in_queue("9 gpu\n", "4") == ""


ENDED = "slurmstepd-n1: error: *** JOB 21 ON n1 CANCELLED AT 2026-11-25T17:59:05{} ***\n"
EARLIER = "slurmstepd-n2: error: *** STEP 21.0 ON n2 CANCELLED AT 2026-11-25T17:59:05 DUE TO NODE FAILURE ***\n"


@pytest.mark.parametrize(
    ("output", "state", "left_s", "code"),
    [
        (ENDED.format(" DUE TO TIME LIMIT"), "COMPLETING", 0, 124),
        (ENDED.format(" DUE TO PREEMPTION"), "COMPLETING", 0, 75),
        (ENDED.format(" DUE TO JOB REQUEUE"), "COMPLETING", 0, 75),
        (ENDED.format(""), "COMPLETING", 0, 130),
        (ENDED.format(""), "RUNNING", 30, 124),  # the warning before the limit; measured: the same line
        (ENDED.format(""), "RUNNING", 3000, 130),  # scancel --batch --signal=TERM
        (EARLIER, "RUNNING", 3000, 130),
        ("", "", 0, 130),
    ],
)
def test_why_slurm_sends_its_signal(output: str, state: str, left_s: float, code: int) -> None:
    end = datetime(2026, 11, 25, 18, 0, 0)
    fields = {"JobState": state, "EndTime": "2026-11-25T18:00:00"}
    now = end.astimezone().timestamp() - left_s
    assert cause_of_signal(output, fields, now=now, within_s=100.0).exit_code == code


def test_an_end_that_slurms_daemon_says_without_a_cause() -> None:
    said = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***\n"
    assert (slurm_states.is_end_said(said), slurm_states.cause_said(said)) == (True, None)
    assert not slurm_states.is_end_said("*** JOB of mine was CANCELLED ***\n")


def test_a_lost_node_is_named() -> None:
    line = "JobState=NODE_FAIL BatchHost=n1 FailedNode="
    found = slurm_states.job_state(fields_of(f"{line}n2")).ending
    assert found is not None
    assert (found.words, found.exit_code) == ("lost node n2", 69)
    without = slurm_states.job_state(fields_of(f"{line}(null)")).ending
    assert without is not None
    assert without.words == "lost node n1"


def test_preemption_with_a_grace_period_is_no_time_limit() -> None:
    fields = {"JobState": "RUNNING", "PreemptTime": "2026-01-01T00:00:00", "EndTime": "2026-01-01T00:00:30"}
    found = slurm_states.cause_of_signal("", fields, now=0.0, within_s=90.0)
    assert found == slurm_states.ENDINGS["PREEMPTED"]


@pytest.mark.parametrize(
    ("word", "job", "mode", "back"),
    [
        ("PREEMPTED", {"JobState": "COMPLETING", "Requeue": "1"}, "REQUEUE", True),
        ("PREEMPTED", {"JobState": "COMPLETING", "Requeue": "1"}, "CANCEL", False),
        ("PREEMPTED", {"JobState": "COMPLETING", "Requeue": "1"}, "GANG,CANCEL", False),
        ("PREEMPTED", {"JobState": "RUNNING", "Requeue": "1"}, "CANCEL", True),
        ("PREEMPTED", {"JobState": "RUNNING", "Requeue": "0"}, "REQUEUE", False),
        ("NODE_FAIL", {"JobState": "COMPLETING", "Requeue": "1"}, "CANCEL", True),
        ("NODE_FAIL", {"JobState": "COMPLETING", "Requeue": "0"}, "OFF", False),
        ("REQUEUED", {"JobState": "PENDING", "Requeue": "0"}, "CANCEL", True),
        ("CANCELLED", {"JobState": "COMPLETING", "Requeue": "1"}, "REQUEUE", False),
        ("PREEMPTED", {}, "", True),
    ],
)
def test_a_job_comes_back_unless_slurm_cancels_it(word: str, job: dict[str, str], mode: str, back: bool) -> None:
    partition = {"PreemptMode": mode} if mode else {}
    assert slurm_states.comes_back(slurm_states.ENDINGS[word], job, partition) is back


@pytest.mark.parametrize(
    ("failed", "words"), [("n2", "lost node n2"), ("(null)", "lost a node"), (None, "lost a node"), ("", "lost a node")]
)
def test_a_lost_node_is_named_if_slurm_names_it(failed: str | None, words: str) -> None:
    output = "slurmstepd-n1: error: *** JOB 12 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE ***"
    fields = fields_of("JobState=COMPLETING Requeue=1" + ("" if failed is None else f" FailedNode={failed}"))
    cause = cause_of_signal(output, fields, now=0.0, within_s=90.0)
    assert (cause.kind, cause.exit_code, cause.words) == ("host_lost", 69, words)
    assert slurm_states.comes_back(cause, fields, {"PreemptMode": "CANCEL"})
