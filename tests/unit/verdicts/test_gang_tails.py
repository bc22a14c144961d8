"""Which rank is named first when a gang ends with the recorded tails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome, Verdict
from ddp_play.run.stop_decision import Stop
from ddp_play.run.verdict import judge
from tests.unit.guard.recorded_tails import TAILS

STEP = "step 120 loss 0.31\n"


def ended(rank: int, code: int | None = 1, *, at: float = 1.0, **more: Any) -> RankOutcome:
    return RankOutcome(rank, f"h{rank}", "exited", exit_code=code, ended=at, **more)


def crashed(rank: int, signum: int, *, at: float = 1.0, **more: Any) -> RankOutcome:
    return ended(rank, 128 + signum, at=at, signal=signum, **more)


def stopped(rank: int, *, at: float = 2.0, signum: int = 15, **more: Any) -> RankOutcome:
    return ended(rank, 128 + signum, at=at, signal=signum, stopped=True, **more)


@dataclass(frozen=True)
class Gang:
    """Ranks as they ended, the names of their tails (a tail that is not recorded stands as it is), who is named."""

    ranks: tuple[RankOutcome, ...]
    tails: dict[int, str]
    first: int
    code: int
    says: tuple[str, ...] = ()
    not_says: tuple[str, ...] = field(default=("ended because of it; ",))


GANGS = {
    "finding A6: rank 0's data set is refused, rank 1 sleeps": Gang(
        (ended(0), stopped(1)), {0: "urllib-refused", 1: STEP}, 0, 1, ("rank 0 on h0 failed first: exit code 1",)
    ),
    "requests, and its peer was hit by it": Gang(
        (ended(1, at=1.0), ended(0, at=1.2)), {0: "requests-refused", 1: "gloo-peer-exits"}, 0, 1
    ),
    "a database": Gang((ended(0, 3), stopped(1)), {0: "psycopg-refused", 1: ""}, 0, 3),
    "wandb before the ranks met": Gang((ended(0), stopped(1)), {0: "wandb-refused", 1: ""}, 0, 1),
    "a broken pipe of the script": Gang((ended(1, 1), stopped(0)), {1: "broken-pipe", 0: STEP}, 1, 1),
    "a data loader whose worker was killed": Gang(
        (ended(0, at=1.0), ended(1, at=1.1)), {0: "gloo-ddp-forward", 1: "loader-killed"}, 1, 1
    ),
    "all lost a peer, two silent ones were stopped": Gang(
        (ended(0), ended(1, at=1.1), stopped(2), stopped(3)),
        {0: "gloo-peer-exits", 1: "gloo-timeout", 2: STEP, 3: STEP},
        0,
        1,
        ("it lost a peer; ranks 1, 2, 3 ended too, and no rank shows an error of its own",),
        ("ended because of it",),
    ),
    "all lost a peer, the only silent one was stopped": Gang(
        (ended(0), ended(1, at=1.1), stopped(2)), {0: "gloo-peer-exits", 1: "gloo-timeout", 2: STEP}, 0, 1
    ),
    "the culprit was still writing its traceback when it was stopped": Gang(
        (ended(0), stopped(1)),
        {0: "gloo-peer-exits", 1: "own-exception"},
        1,
        1,
        ("rank 1 on h1 failed first: it had an error of its own and had not ended when it was stopped",),
    ),
    "a stopped rank logged an error long ago": Gang(
        (ended(0), stopped(1)), {0: "gloo-peer-exits", 1: TAILS["urllib-refused"].text + STEP * 30}, 0, 1
    ),
    "a stopped rank answers with KeyboardInterrupt": Gang(
        (ended(0), stopped(1, signum=2)), {0: "gloo-peer-exits", 1: "keyboard-interrupt"}, 0, 1
    ),
    "a stopped rank crashed before our signal": Gang(
        (ended(0), stopped(1, signum=11)), {0: "gloo-peer-exits", 1: "segfault"}, 1, 1
    ),
    "a stopped rank was out of memory": Gang(
        (ended(0), stopped(1, signum=9, oom=True)), {0: "gloo-peer-exits", 1: STEP}, 1, 1
    ),
    "a segmentation fault": Gang((ended(0), crashed(1, 11)), {0: "gloo-peer-killed", 1: "segfault"}, 1, 139),
    "a bus error": Gang((ended(0), crashed(1, 7, at=1.3)), {0: "gloo-peer-killed", 1: "bus-error"}, 1, 135),
    "killed from outside": Gang((ended(0), crashed(1, 9, at=1.3)), {0: "gloo-peer-killed", 1: STEP}, 1, 137),
    "finding A24: sys.exit(7) became an abort": Gang(
        (ended(0), crashed(1, 6, at=1.4)), {0: "gloo-in-thread", 1: "teardown-abort"}, 1, 134, ("signal 6 (SIGABRT)",)
    ),
    "torch aborts a rank that had lost its peer": Gang(
        (crashed(0, 6), ended(1, 7, at=1.5)),
        {0: TAILS["gloo-peer-exits"].text + TAILS["teardown-abort"].text, 1: STEP},
        1,
        7,
    ),
    "sizes differ: gloo aborts one": Gang(
        (ended(0, at=1.2), crashed(1, 6)), {0: "gloo-mismatch-victim", 1: "gloo-mismatch-abort"}, 1, 134
    ),
    "NCCL times out everywhere but where a rank failed": Gang(
        (crashed(0, 6), crashed(1, 6), ended(2, 1, at=1.9)),
        {0: "nccl-watchdog-2.6-two-at-once", 1: "nccl-dump-signal-from-peer", 2: "own-exception"},
        2,
        1,
    ),
    "NCCL: a remote error and the GPU that caused it": Gang(
        (ended(0), crashed(1, 6, at=1.2)), {0: "nccl-remote-error", 1: "cuda-illegal-access"}, 1, 134
    ),
    "NCCL has no shared memory": Gang(
        (ended(0, at=1.1), ended(1, at=1.0)), {0: "nccl-shared-memory-full", 1: "nccl-internal-error-of-a-peer"}, 0, 1
    ),
    "CUDA is out of memory": Gang(
        (ended(0, at=1.0), ended(1, at=1.2)), {0: "nccl-remote-error", 1: "cuda-out-of-memory"}, 1, 1
    ),
    "the rendezvous port is taken": Gang(
        (ended(1, at=1.0), ended(0, at=1.2)), {0: "store-port-taken", 1: "store-never-there"}, 0, 1
    ),
    "the name of the head does not resolve": Gang(
        (ended(0, at=1.0), ended(1, at=1.2)), {0: "store-clients-missing", 1: "store-name-unknown"}, 1, 1
    ),
    "an interface that does not exist": Gang(
        (ended(1, at=1.2), ended(0, at=1.0)), {1: "gloo-no-interface", 0: "gloo-mesh-incomplete"}, 1, 1
    ),
    "an error, and then a barrier in its handler": Gang(
        (ended(0, at=1.2), ended(1, at=1.0)), {0: "own-then-barrier", 1: "gloo-peer-exits"}, 0, 1
    ),
}


def verdict(gang: Gang) -> Verdict:
    tails = {rank: TAILS[name].text if name in TAILS else name for rank, name in gang.tails.items()}
    return judge(gang.ranks, tails, Stop("failure", "a rank failed")).verdict


@pytest.mark.parametrize("gang", GANGS.values(), ids=GANGS)
def test_who_is_named_first(gang: Gang) -> None:
    got = verdict(gang)
    assert (got.kind, got.rank, got.exit_code) == ("rank_failed", gang.first, gang.code), got.message
    for words in gang.says:
        assert words in got.message
    for words in gang.not_says:
        assert words not in got.message


def test_the_error_that_is_shown_is_the_programs_own() -> None:
    got = verdict(Gang((ended(0),), {0: "gloo-and-thread-refused"}, 0, 1))
    assert got.error.startswith("RuntimeError: [/__w/pytorch")
    assert got.last_frame.endswith("distributed_c10d.py:3252 in all_reduce")
