"""What a verdict quotes of a rank's log: the last frame, what was raised, what NCCL says of it, the last lines."""

from __future__ import annotations

import pytest

from ddp_play.run.verdict import last_frame, own_error, told_by_nccl
from tests.unit.guard.recorded_tails import TAILS
from tests.unit.run.rank_ends import RANKED, TRACEBACK, ended, verdict


@pytest.mark.parametrize("tail", [TRACEBACK, RANKED, "step 1\n" + RANKED + "[W] cleaned up\n"])
def test_the_last_frame_and_what_was_raised(tail: str) -> None:
    assert last_frame(tail) == "/workspace/train.py:88 in step"
    assert own_error(tail) == "ValueError: loss is nan"


def test_no_traceback_no_error() -> None:
    assert (last_frame("killed"), own_error("killed"), own_error("")) == ("", "", "")


@pytest.mark.parametrize("name", ["nccl-duplicate-gpu", "nccl-duplicate-gpu-2.11"])
def test_what_nccl_says_of_its_error_is_told_with_it(name: str) -> None:
    tail = TAILS[name].text
    said = "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device"
    assert told_by_nccl(tail).startswith(said)
    found = verdict(
        ended(0, 1), ended(1, 1, at=2), tails={0: tail, 1: tail.replace("rank 1 and rank 0", "rank 0 and rank 1")}
    )
    assert found.error.startswith("torch.distributed.DistBackendError: NCCL error in")
    assert said in found.error
    assert "rank 1 failed with the same error" in found.message
    assert told_by_nccl(TRACEBACK) == told_by_nccl("") == ""


@pytest.mark.parametrize(
    ("tail", "frame"),
    [
        ("", ""),
        ("no traceback here", ""),
        (TRACEBACK, "/workspace/train.py:88 in step"),
        (TRACEBACK.replace("step", "<lambda>"), "/workspace/train.py:88 in <lambda>"),
        ('[rank1]:   File "a.py", line 1, in f', "a.py:1 in f"),
    ],
)
def test_last_frame(tail: str, frame: str) -> None:
    assert last_frame(tail) == frame


def test_lines_that_a_terminal_should_not_see() -> None:
    got = verdict(ended(0, 1), tails={0: "\x1b[2Jgone\x00\n" + "x" * 5000})
    assert got.tail[0] == "\ufffd[2Jgone\ufffd"
    assert got.tail[1].endswith("... (5000 characters)")
    assert len(got.tail[1]) < 500
