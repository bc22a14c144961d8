"""Ranks as they ended, ends of their logs, and the verdict on them: what the tests of verdicts share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import RankOutcome, Verdict
from ddp_play.run.verdict import judge

if TYPE_CHECKING:
    from ddp_play.run.stop_decision import Stop

RESET = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:34710\n"
NCCL = "torch.distributed.DistBackendError: NCCL error: unhandled system error, NCCL version 2.27.3\n"
STORE = "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients joined.\n"
TRACEBACK = """Traceback (most recent call last):
  File "/workspace/train.py", line 120, in <module>
    main()
  File "/workspace/train.py", line 88, in step
    raise ValueError("loss is nan")
ValueError: loss is nan
"""


def ended(rank: int, code: int | None = 0, *, at: float = 1.0, host: str = "", **more: Any) -> RankOutcome:
    return RankOutcome(rank, host or f"h{rank}", "exited", exit_code=code, ended=at, **more)


def lost(rank: int, host: str = "") -> RankOutcome:
    return RankOutcome(rank, host or f"h{rank}", "lost", detail="silent for 31 s")


def verdict(*ranks: RankOutcome, tails: dict[int, str] | None = None, stop: Stop | None = None) -> Verdict:
    return judge(tuple(ranks), tails or {}, stop).verdict


RANKED = "".join(f"[rank1]: {line}\n" for line in TRACEBACK.splitlines())  # as torch prints it once ranks have met
