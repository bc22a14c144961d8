"""What stays on the normal screen."""

from __future__ import annotations

from ddp_play.bundle.run_state import RunState
from ddp_play.cli.screen.last_state import MAX_NOTES, MAX_RANKS, last_state
from tests.unit.cli.screen.states import ends, running


def test_nothing_of_a_run_that_never_began() -> None:
    assert last_state(RunState()) == []


def test_warnings_failures_the_log_and_the_progress() -> None:
    state = running()
    state.take_event({"time": 1.0, "type": "warning", "message": "its disk is nearly full"})
    ends(state, 5)
    lines = last_state(state, [("gpu1:0", "step 590")])
    assert lines == [
        ("warning: its disk is nearly full", "bold yellow"),
        ("gpu2:5: exit code 3", "bold red"),
        ("gpu1:0: step 590", ""),
        ("gpu2:5 failed, exit code 3; its last line: step 590 loss 0.0417 of rank 5", ""),
        ("ranks: 1 failed, 7 running  step 590  samples/s 3457  loss 0.0417", "dim"),
    ]


def test_it_is_short_whatever_happened() -> None:
    state = running(8, 8)
    for rank in range(64):
        ends(state, rank)
    lines = [text for text, _ in last_state(state)]
    assert lines[0] == f"and {64 - MAX_NOTES} earlier events"
    assert f"and {64 - MAX_RANKS} failed ranks" in lines
    assert len(lines) == MAX_NOTES + MAX_RANKS + 3
