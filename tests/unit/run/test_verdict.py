"""Why a run ended: cause before time, collateral apart, ends that no rank caused."""

from __future__ import annotations

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.run.stack_dumps import Whereabouts
from ddp_play.run.stop_decision import Stop
from ddp_play.run.verdict import judge
from tests.unit.run.rank_ends import NCCL, RANKED, RESET, STORE, TRACEBACK, ended, lost, verdict

SLOW = ended(2, 143, signal=15, stopped=True, at=3.0)


@pytest.mark.parametrize(
    ("ranks", "tails", "rank"),
    [
        # it raised, closed its connections first and was stopped before it was gone
        ((ended(0, 1), ended(1, 1), SLOW), {0: RESET, 1: RESET, 2: RANKED}, 2),
        # the same without a word: stopped by us, it is never named; the first that failed is
        ((ended(0, 1), ended(1, 1), SLOW), {0: RESET, 1: RESET, 2: "step 7"}, 0),
        # two without a word: nobody can tell, the first that failed is named
        ((ended(0, 1), SLOW, ended(3, 143, signal=15, stopped=True)), {0: RESET}, 0),
        # a stopped rank that only complains is not it
        ((ended(0, 1), SLOW), {0: RESET, 2: RESET}, 0),
        # killed by us, with our signal in its log: not killed from outside
        ((ended(0, 1), ended(1, 137, signal=9, stopped=True), SLOW), {0: RESET, 1: RESET, 2: RANKED}, 2),
    ],
)
def test_a_cause_that_was_slower_than_our_stop(
    ranks: tuple[RankOutcome, ...], tails: dict[int, str], rank: int
) -> None:
    got = verdict(*ranks, tails=tails, stop=Stop("failure", "a rank failed"))
    assert (got.kind, got.rank, got.exit_code) == ("rank_failed", rank, 1)


def test_what_the_kernel_said_is_in_the_verdict() -> None:
    killed = ended(1, 137, signal=9, oom=True, kernel=("Memory cgroup out of memory: Killed process 7",))
    got = verdict(killed, tails={1: "step 7"})
    assert got.kernel == killed.kernel
    assert "out of memory" in got.message
    unread = ended(1, 137, signal=9, kernel_problem="the kernel log cannot be read by this user")
    assert verdict(unread).hint == "it was killed from outside; the kernel log cannot be read by this user"


def test_what_hung_ranks_were_doing() -> None:
    found = {0: Whereabouts("waits in barrier at a.py:1", True), 1: Whereabouts("is in load at b.py:2", False)}
    stop = Stop("idle", "no output for 60 s")
    ranks = (ended(0, 134, signal=6, stopped=True), ended(1, 134, signal=6, stopped=True))
    got = judge(ranks, {1: "step 3\nFatal Python error: Aborted\nThread 0x1"}, stop, found).verdict
    assert got.message == "no output for 60 s: rank 0 waits in barrier at a.py:1; rank 1 is in load at b.py:2"
    assert (got.rank, got.host, got.tail) == (1, "h1", ("step 3",))
    assert "evidence/" in got.hint


def test_a_full_disk_of_a_rank_is_named() -> None:
    assert "shared directory" in verdict(ended(0, 1), tails={0: "OSError: [Errno 28] No space left on device"}).hint


def test_all_is_well() -> None:
    outcome = judge((ended(0), ended(1)), {}, None)
    assert outcome.status is RunStatus.SUCCEEDED
    assert (outcome.verdict.kind, outcome.verdict.message, outcome.verdict.exit_code) == (
        "done",
        "all 2 ranks exited 0",
        0,
    )
    assert outcome.verdict.tail == ()


CASES: list[tuple[str, tuple[RankOutcome, ...], dict[int, str], int, int]] = [
    ("one of two", (ended(0), ended(1, 3)), {}, 1, 3),
    ("the earlier", (ended(0, 4, at=2.0), ended(1, 3, at=1.0)), {}, 1, 3),
    ("cause before time, gloo", (ended(0, 1, at=1.0), ended(1, 7, at=1.3)), {0: RESET, 1: TRACEBACK}, 1, 7),
    ("cause before time, nccl", (ended(0, 1, at=1.0), ended(1, 7, at=1.3)), {0: NCCL, 1: ""}, 1, 7),
    ("cause before time, store", (ended(0, 1, at=1.0), ended(1, 7, at=9.0)), {0: STORE, 1: "x"}, 1, 7),
    ("collateral only: the earliest", (ended(0, 1, at=2.0), ended(1, 1, at=1.0)), {0: RESET, 1: RESET}, 1, 1),
    ("killed", (ended(0, 1), ended(1, 137, signal=9, at=2.0)), {0: RESET, 1: RESET}, 1, 137),
    ("segmentation fault", (ended(0, 1), ended(1, 139, signal=11, at=2.0)), {0: RESET, 1: RESET}, 1, 139),
    ("out of memory", (ended(0, 1), ended(1, 1, oom=True, at=2.0)), {0: RESET, 1: RESET}, 1, 1),
    ("stopped ranks are not asked", (ended(0, 143, signal=15, stopped=True), ended(1, 5, at=3.0)), {}, 1, 5),
    ("the same moment: the lower rank", (ended(0, 2), ended(1, 3)), {}, 0, 2),
    ("exit code unknown", (ended(0), ended(1, None, detail="the container was removed from outside")), {}, 1, 1),
]


@pytest.mark.parametrize(
    ("ranks", "tails", "rank", "code"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_who_failed_first(ranks: tuple[RankOutcome, ...], tails: dict[int, str], rank: int, code: int) -> None:
    outcome = judge(ranks, tails, Stop("failure", "a rank failed"))
    assert outcome.status is RunStatus.FAILED
    assert (outcome.verdict.kind, outcome.verdict.rank, outcome.verdict.host) == ("rank_failed", rank, f"h{rank}")
    assert outcome.verdict.exit_code == code


def test_the_message_of_a_failure() -> None:
    got = verdict(ended(0, 1, at=1.0), ended(1, 7, at=1.2), ended(2), tails={0: RESET, 1: TRACEBACK})
    assert got.message == "rank 1 on h1 failed first: exit code 7; rank 0 ended because of it"
    assert got.collateral == (0,)
    assert got.tail[-1] == "ValueError: loss is nan"
    assert got.last_frame == "/workspace/train.py:88 in step"


def test_ranks_with_the_same_error_did_not_end_because_of_the_first() -> None:
    tails = {0: TRACEBACK, 1: TRACEBACK, 2: RANKED, 3: RESET}
    got = verdict(*(ended(rank, 1, at=1.0 + rank) for rank in range(4)), tails=tails)
    assert got.message == (
        "rank 0 on h0 failed first: exit code 1; ranks 1, 2 failed with the same error; rank 3 ended because of it"
    )
    assert got.collateral == (3,)
    all_of_them = verdict(ended(0, 1), ended(1, 1), tails={0: TRACEBACK, 1: TRACEBACK})
    assert all_of_them.message == "rank 0 on h0 failed first: exit code 1; rank 1 failed with the same error"
    assert all_of_them.collateral == ()


@pytest.mark.parametrize(
    ("others", "words"),
    [
        (1, "rank 1 ended"),
        (3, "ranks 1, 2, 3 ended"),
        (6, "ranks 1, 2, 3, 4, 5, 6 ended"),
        (63, "63 other ranks ended"),
    ],
)
def test_collateral_is_counted(others: int, words: str) -> None:
    peers = [ended(rank, 143, signal=15, stopped=True) for rank in range(1, others + 1)]
    got = verdict(ended(0, 9), *peers)
    assert f"; {words} because of it" in got.message
    assert len(got.collateral) == others


@pytest.mark.parametrize(
    ("row", "tail", "hint"),
    [
        (ended(0, 137, signal=9, oom=True), "", "ddp_job_memory"),
        (ended(0, 127), "", "command was not found"),
        (ended(0, 127), 'exec: "apparmor_parser": executable file not found in $PATH', "package apparmor is missing"),
        (ended(0, 1), "ModuleNotFoundError: No module named 'torch'", "ddp_python"),
        (ended(0, 1), "The server socket has failed to bind: EADDRINUSE", "ddp_job_port_range"),
        (ended(0, 1), "ValueError", ""),
    ],
)
def test_hints(row: RankOutcome, tail: str, hint: str) -> None:
    got = verdict(row, tails={0: tail})
    assert hint in got.hint
    assert bool(hint) is bool(got.hint)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (ended(0, 137, signal=9), "signal 9 (SIGKILL)"),
        (ended(0, 137, signal=9, oom=True), "signal 9 (SIGKILL), out of memory"),
        (ended(0, 126, detail="cannot start: Permission denied"), "exit code 126 (cannot start: Permission denied)"),
        (ended(0, None, detail="the container was removed"), "failed first: the container was removed"),
        (ended(0, None), "ended, exit code unknown"),
        (ended(0, 200, signal=72), "signal 72 (signal 72)"),
    ],
)
def test_how_it_ended_in_words(row: RankOutcome, words: str) -> None:
    message = verdict(row).message
    assert words in message
    assert not row.detail or message.count(row.detail) == 1


def test_a_lost_host_is_the_cause_when_the_others_only_lost_their_peer() -> None:
    outcome = judge((ended(0, 1), lost(1, "b"), lost(2, "b")), {0: RESET}, Stop("host_lost", "host b was lost"))
    got = outcome.verdict
    assert (outcome.status, got.kind, got.host, got.exit_code) == (RunStatus.FAILED, "host_lost", "b", 69)
    assert got.message == "host b was lost with ranks 1, 2: silent for 31 s"
    assert got.collateral == (0,)
    assert got.hint == "", "what becomes of its files is known after the collection"


def test_a_lost_host_is_not_the_cause_when_a_rank_failed_by_itself() -> None:
    assert verdict(ended(0, 7), lost(1), tails={0: TRACEBACK}).rank == 0


@pytest.mark.parametrize(
    "ranks", [(ended(0, 143, stopped=True), ended(1, 143, stopped=True)), (ended(0), ended(1, 143))]
)
def test_a_users_stop(ranks: tuple[RankOutcome, ...]) -> None:
    outcome = judge(ranks, {}, Stop("stopped", "interrupted with Ctrl-C"))
    assert outcome.status is RunStatus.STOPPED
    assert (outcome.verdict.message, outcome.verdict.exit_code) == ("interrupted with Ctrl-C", 130)
    assert outcome.verdict.rank is None


@pytest.mark.parametrize("kind", ["idle", "max_duration", "lease"])
def test_time_limits(kind: str) -> None:
    outcome = judge((ended(0, 143, stopped=True),), {0: "step 3\n"}, Stop(kind, "why"))
    got = outcome.verdict
    assert (outcome.status, got.kind, got.message, got.exit_code) == (RunStatus.FAILED, kind, "why", 124)
    assert got.tail == ("step 3",)


@pytest.mark.parametrize("kind", ["max_duration", "lease"])
@pytest.mark.parametrize(
    ("at", "tail", "expected"),
    [
        (20.0, TRACEBACK, "rank_failed"),
        (20.0, RESET, ""),  # it lost a peer: not its fault
        (59.5, TRACEBACK, ""),  # at the same time, as far as clocks tell
        (70.0, TRACEBACK, ""),
    ],
)
def test_a_limit_does_not_hide_a_rank_that_failed_before_it(kind: str, at: float, tail: str, expected: str) -> None:
    """Without a controller its peers wait for it until their guard's limit; the same error would come again."""
    waiting = ended(1, 143, signal=15, stopped=True, at=60.0)
    got = verdict(ended(0, 3, at=at), waiting, tails={0: tail}, stop=Stop(kind, "why"))
    assert got.kind == (expected or kind)
    assert (got.rank, got.exit_code) == ((0, 3) if expected else (None, 124))


def test_a_wrong_fabric_is_a_failed_check() -> None:
    got = verdict(ended(0, 143, stopped=True), stop=Stop("wrong_fabric", "rank 0 uses sockets"))
    assert (got.kind, got.exit_code, got.message) == ("wrong_fabric", 1, "rank 0 uses sockets")
    assert "ddp_job_fabric: ethernet" in got.hint


def test_time_limits_without_ranks() -> None:
    assert verdict(stop=Stop("idle", "why")).tail == ()


def test_ended_by_a_guard_without_a_word() -> None:
    outcome = judge((ended(0), ended(1, 143, signal=15, stopped=True)), {}, None)
    assert (outcome.status, outcome.verdict.kind, outcome.verdict.exit_code) == (RunStatus.FAILED, "stopped", 130)
    assert outcome.verdict.message == "rank 1 on h1 was ended: signal 15 (SIGTERM)"


def test_only_the_end_of_the_log_decides() -> None:
    """A reset peer that was survived an hour ago is no collateral now."""
    early = RESET + "step\n" * 40 + TRACEBACK
    assert verdict(ended(0, 1, at=1.0), ended(1, 1, at=2.0), tails={0: early, 1: RESET}).rank == 0


def test_verdicts_survive_json() -> None:
    got = verdict(ended(0, 7), ended(1, 1, at=5.0), tails={0: TRACEBACK, 1: RESET})
    assert Verdict.from_json(got.to_json()) == got


def test_an_outcome_as_json() -> None:
    data = Outcome(RunStatus.FAILED, Verdict("rank_failed", "m", 7), (ended(0, 7),), left={"h": ["x"]}).to_json()
    assert (data["status"], data["exit_code"], data["exit_class"]) == ("failed", 7, "rank_failed")
    assert data["ranks"][0]["exit_code"] == 7
    assert data["left_behind"] == {"h": ["x"]}
