"""What a command wrote, and the two ends that do not wait for it."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.protocol import WITHDRAWN
from ddp_play.guard.refusal import Refused
from ddp_play.guard.withdrawal import outcome

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A command that writes and then takes long."""
    pipe = subprocess.PIPE
    with subprocess.Popen(["sh", "-c", "echo begun; exec sleep 100"], stdout=pipe, stderr=pipe) as made:
        yield made
        made.kill()


def test_a_command_that_ends_is_heard_out() -> None:
    words = ["sh", "-c", "sleep 0.5; echo out; echo err >&2; exit 3"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as made:
        assert outcome(made, time.monotonic() + 60, lambda: False) == (b"out\n", b"err\n")
    assert made.returncode == 3


def test_an_order_that_is_withdrawn_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    answers = iter([False, True])
    with pytest.raises(Refused, match="the preparation was withdrawn") as caught:
        outcome(child, time.monotonic() + 60, lambda: next(answers))
    assert caught.value.kind == WITHDRAWN


def test_the_limit_ends_the_wait(child: subprocess.Popen[bytes]) -> None:
    with pytest.raises(TimeoutError):
        outcome(child, time.monotonic() + 0.3, lambda: False)
