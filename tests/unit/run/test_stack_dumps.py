"""Where hung ranks are: from what faulthandler really printed in ranks of torch 2.13 over gloo."""

from __future__ import annotations

import pytest

from ddp_play.run.stack_dumps import Whereabouts, cut_dump, main_stack, summary, suspect, whereabouts

TORCH = "/usr/lib/python3/dist-packages/torch"
BACKWARD = f"""rank 0 step 2 loss 1.119591
Fatal Python error: Aborted

Thread 0x00007eff8ac90b80 (most recent call first):
  File "{TORCH}/autograd/graph.py", line 979 in _engine_run_backward
  File "{TORCH}/autograd/__init__.py", line 395 in backward
  File "{TORCH}/_tensor.py", line 623 in backward
  File "/workspace/train.py", line 101 in step
  File "/workspace/train.py", line 129 in <module>

Extension modules: numpy._core._multiarray_umath, torch._C (total: 22)
"""
BARRIER = f"""Fatal Python error: Aborted

Thread 0x00007f119ae6bb80 (most recent call first):
  File "{TORCH}/distributed/distributed_c10d.py", line 5356 in barrier
  File "{TORCH}/distributed/c10d_logger.py", line 83 in wrapper
  File "/workspace/train.py", line 69 in skip
  File "/workspace/train.py", line 129 in <module>
"""
LOADING = """FAULT 1795273981.408
Fatal Python error: Aborted

Current thread 0x00007f42f9a77b80 (most recent call first):
  File "/workspace/data.py", line 12 in load_batch
  File "/workspace/train.py", line 129 in <module>
"""
LOCK = """Fatal Python error: Aborted

Thread 0x00007f42f9a77b81 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x00007f42f9a77b80 [MainThread] (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 320 in wait
  File "/usr/lib/python3.11/queue.py", line 171 in get
  File "/workspace/data.py", line 40 in fetch
  File "/workspace/train.py", line 7 in <module>
"""
IMPORTING = """Fatal Python error: Aborted

Current thread 0x00007f42f9a77b80 (most recent call first):
  File "<frozen importlib._bootstrap>", line 241 in _call_with_frames_removed
  File "/workspace/train.py", line 3 in <module>
"""


@pytest.mark.parametrize(
    ("log", "seen", "does", "waits"),
    [
        (BACKWARD, {"state": "S"}, "waits in backward at train.py:101", True),
        (BARRIER, {}, "waits in barrier at train.py:69", True),
        (LOADING, {"state": "R", "cpu": 1.0}, "is in load_batch at data.py:12", False),
        (LOCK, {}, "is in get, called from fetch at data.py:40", False),
        (IMPORTING, {}, "is in _call_with_frames_removed, called from <module> at train.py:3", False),
        (LOADING, {"state": "T"}, "is stopped by a signal in load_batch at data.py:12", False),
        ("", {"state": "T"}, "is stopped by a signal", False),
        (LOADING, {"state": "D"}, "waits for a disk or a network mount in load_batch at data.py:12", False),
        ("no dump at all", {"state": "S"}, "gave no Python stack (state S)", False),
        ("", {}, "gave no Python stack", False),
    ],
)
def test_whereabouts(log: str, seen: dict[str, object], does: str, waits: bool) -> None:
    assert whereabouts(cut_dump(log), seen) == Whereabouts(does, waits)


def test_the_main_thread_is_the_one_that_began_in_a_module() -> None:
    assert [frame.name for frame in main_stack(LOCK)] == ["wait", "get", "fetch", "<module>"]
    assert main_stack("") == ()


def test_the_last_dump_of_a_log_counts() -> None:
    assert "load_batch" in cut_dump(BARRIER + LOADING)
    assert "barrier" not in cut_dump(BARRIER + LOADING)


def found(*does: str) -> dict[int, Whereabouts]:
    return {rank: Whereabouts(text, text.startswith("waits in")) for rank, text in enumerate(does)}


WAIT, OTHER, LOAD = "waits in all_reduce at train.py:88", "waits in barrier at train.py:90", "is in load at data.py:12"


@pytest.mark.parametrize(
    ("where", "words", "who"),
    [
        (found(), "", None),
        (found(WAIT, WAIT), "ranks 0, 1 wait in all_reduce at train.py:88", None),
        (
            found(WAIT, WAIT, WAIT, LOAD),
            "ranks 0, 1, 2 wait in all_reduce at train.py:88; rank 3 is in load at data.py:12",
            3,
        ),
        (
            found(WAIT, OTHER, WAIT),
            "ranks 0, 2 wait in all_reduce at train.py:88; rank 1 waits in barrier at train.py:90",
            1,
        ),
        (found(WAIT, OTHER), f"rank 0 {WAIT}; rank 1 {OTHER}", None),
        (
            found(LOAD, LOAD, WAIT),
            "ranks 0, 1 are in load at data.py:12; rank 2 waits in all_reduce at train.py:88",
            None,
        ),
        (found(LOAD), "rank 0 is in load at data.py:12", None),
        (found(*[WAIT] * 9), "9 ranks (0, 1, ... 8) wait in all_reduce at train.py:88", None),
    ],
)
def test_summary_and_suspect(where: dict[int, Whereabouts], words: str, who: int | None) -> None:
    assert summary(where) == words
    assert suspect(where) == who
