"""Outcomes of cases and their table."""

import threading

import pytest
import torch

from trainer.collective_calls import WrongValueError
from trainer.collective_check import Outcome, classify, run_with_limit, table, worst_outcome
from trainer.world import World

WORLD = World(rank=0, world_size=2, backend="gloo", device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WrongValueError("sum: 3 of 4 elements"), "wrong"),
        (RuntimeError("Timed out waiting 1000ms for recv operation to complete"), "hung"),
        (RuntimeError("ProcessGroupGloo does not support send"), "refused"),
        (NotImplementedError(), "refused"),
    ],
)
def test_classify(error: Exception, status: str) -> None:
    found, detail = classify(error)
    assert found == status
    assert detail


def test_a_call_that_never_returns_is_bounded() -> None:
    release = threading.Event()
    assert run_with_limit(release.wait, 0.05) == ("hung", "no answer within 0.05 s")  # type: ignore[arg-type]
    release.set()
    assert run_with_limit(lambda: None, 5) == ("works", "")


def test_the_worst_rank_counts_and_differences_are_marked() -> None:
    good, bad = Outcome("barrier", "works", "", 0.1, False), Outcome("barrier", "refused", "no", 0.0, False)
    assert worst_outcome((good, bad, good)) is bad
    assert "works    no*" in table([good], WORLD)
    assert "refused  no " in table([bad], WORLD)
