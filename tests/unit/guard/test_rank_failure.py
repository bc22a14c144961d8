"""Whether a rank failed, and messages of torch and of the kernel that say why."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.guard.container_rank import make
from ddp_play.guard.rank_failure import (
    LAST_BYTES,
    LAST_LINES,
    blames_a_peer,
    final_error,
    has_own_error,
    is_collateral,
    is_oom,
    last_texts,
)
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.recorded_tails import ENDS, TAILS, Tail

PEER = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:34710"


@pytest.mark.parametrize(
    ("text", "collateral"),
    [
        ("", False),
        ("ValueError: no such column", False),
        (PEER, True),
        ("torch.distributed.DistBackendError: NCCL error ... remote process exited or there was a network error", True),
        ("torch.distributed.DistNetworkError: The client socket has timed out after 60000ms", True),
        ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)", True),
        (PEER + "\nline" * LAST_LINES, False),
        (PEER + "\nline" * (LAST_LINES - 1), True),
        # texts of the operating system, without a line of torch
        ("ConnectionRefusedError: [Errno 111] Connection refused", False),
        ("upload failed: Broken pipe, Connection reset by peer, Socket Timeout", False),
        # torch warns of a store that is gone, and the rank ends for another reason
        ("[W301 10:00:00.0 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3): Broken pipe\nbye", False),
    ],
)
def test_whose_end_a_rank_complains_of(text: str, collateral: bool) -> None:
    assert is_collateral(text) is collateral


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS)
def test_ends_of_real_logs(tail: Tail) -> None:
    assert tail.end in ENDS, tail.name
    assert is_collateral(tail.text) is (tail.end == "peer"), tail.source
    assert has_own_error(tail.text) is (tail.end == "own"), tail.source


def test_the_table_has_enough_of_each_kind() -> None:
    ends = [tail.end for tail in TAILS.values()]
    assert len(ends) >= 80
    assert min(ends.count("peer"), ends.count("own")) >= 35
    assert all(len(tail.text.splitlines()) <= 45 for tail in TAILS.values())


FRAME = '  File "/workspace/train.py", line 7, in step\n'
IN_TORCH = '  File "/opt/venv/lib/python3.8/site-packages/torch/distributed/rendezvous.py", line 175, in f\n'
HEAD = "Traceback (most recent call last):\n"
AGAIN = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("text", "collateral", "own"),
    [
        # the same words, and only the frame tells whose they are
        (HEAD + IN_TORCH + "RuntimeError: Connection reset by peer\n", True, False),
        (HEAD + FRAME + "RuntimeError: Connection reset by peer\n", False, True),
        (HEAD + IN_TORCH + "ConnectionResetError: [Errno 104] Connection reset by peer\n", False, True),
        # gloo's text in an error of the script's own type
        (HEAD + FRAME + f"ValueError: got {PEER}\n", False, True),
        # the first error of a chain counts, unless it is control flow
        (HEAD + FRAME + "ValueError: nan\n" + AGAIN + HEAD + FRAME + PEER + "\n", False, True),
        (HEAD + FRAME + "StopIteration\n" + AGAIN + HEAD + FRAME + PEER + "\n", True, False),
        # what is printed of a thread or at the exit is not what ended the program
        (HEAD + FRAME + PEER + "\nException ignored in: <f>\n" + HEAD + FRAME + "BrokenPipeError: x\n", True, False),
        (HEAD + FRAME + PEER + "\nException in thread T:\n" + HEAD + FRAME + "OSError: x\n", True, False),
        # answers to a stop
        (HEAD + FRAME + "KeyboardInterrupt\n", False, False),
        (HEAD + FRAME + "RuntimeError: DataLoader worker (pid 4) is killed by signal: Terminated. \n", False, False),
        (HEAD + FRAME + "torch.x.api.SignalException: Process 4 got signal: 15\n", False, False),
        # survived: much was printed since
        (HEAD + FRAME + "ValueError: nan\n" + "step\n" * LAST_LINES, False, False),
        # C++ frames and the dump of PYTHONFAULTHANDLER between the message and the end
        (HEAD + FRAME + PEER + "\n" + "frame #1: f (0x7f in a.so)\n" * 60, True, False),
        (PEER + "\nFatal Python error: Aborted\n\n" + '  File "a.py", line 1 in f\n' * 60, True, False),
    ],
)
def test_lost_peers_and_errors_of_their_own(text: str, collateral: bool, own: bool) -> None:
    assert (is_collateral(text), has_own_error(text)) == (collateral, own)


@pytest.mark.parametrize(
    ("line", "oom"),
    [
        ("", False),
        ("python3[7]: segfault at 0 ip 00007f", False),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/docker/ab,task=python3,pid=41,uid=0", True),
        ("Task in /docker/ab killed as a result of limit of /docker/ab", True),
        ("Memory cgroup out of memory: Killed process 41 (python3) total-vm:1kB", True),
    ],
)
def test_which_kernel_messages_tell_of_an_oom_kill(line: str, oom: bool) -> None:
    assert is_oom(["eth0: link up", line]) is oom


@pytest.mark.parametrize("text", ["[[1],[2]," * 7000, "[" * 64000, "[gloo/a" * 9000])
def test_a_long_line_does_not_take_minutes(text: str) -> None:
    """A line of JSON without blanks took ten seconds, of each rank that had failed: the time grew with its square."""
    start = time.process_time()
    assert not is_collateral(text)
    assert time.process_time() - start < 2.0


def test_only_the_end_of_a_log_counts(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    assert not blames_a_peer(log)
    log.write_text("x" * LAST_BYTES + "\n" + PEER + "\n")
    assert blames_a_peer(log)
    log.write_text(PEER + "\n" + "x" * LAST_BYTES)
    assert not blames_a_peer(log)


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        ({"state": "created", "exit_code": None, "stopped": False}, False),
        ({"state": "running", "exit_code": None, "stopped": False}, False),
        ({"state": "exited", "exit_code": 0, "stopped": False}, False),
        ({"state": "exited", "exit_code": 3, "stopped": False}, True),
        ({"state": "exited", "exit_code": None, "stopped": False}, True),
        ({"state": "exited", "exit_code": 143, "stopped": True}, False),
    ],
)
def test_guard_and_controller_call_the_same_ranks_failed(tmp_path: Path, row: dict[str, Any], failed: bool) -> None:
    on_host = make({"rank": 0}, HostRun(tmp_path))
    on_host.row.update(row)
    assert on_host.failed is failed
    assert RankOutcome(rank=0, host="h1", **row).failed is failed


def test_a_rank_of_a_lost_host_has_not_failed() -> None:
    assert RankOutcome(rank=0, host="h1", state="lost").failed is False


SURVIVED = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: once\n'
LAST = 'Traceback (most recent call last):\n  File "b.py", line 2, in g\nValueError: loss is nan\n'


def test_the_last_error_is_the_one_that_ended_the_program() -> None:
    error = final_error(SURVIVED + "step 1\n" * 50 + LAST)
    assert error is not None
    assert error.first_line == "ValueError: loss is nan"
    assert final_error("step 1\n") is None


def test_of_several_ranks_in_one_log_the_last_that_blames_nobody_counts() -> None:
    """Under a torchrun of the job's own, whose summary follows."""
    summary = 'Traceback (most recent call last):\n  File "c.py", line 3, in h\nChildFailedError: \n'
    peer = f'Traceback (most recent call last):\n  File "d.py", line 4, in i\n{PEER}\n'
    stop = SURVIVED.replace("OSError: once", "KeyboardInterrupt")
    assert has_own_error(LAST + peer + summary)
    assert has_own_error(stop + LAST + peer + summary)
    assert not has_own_error(LAST + stop + peer + summary), "the last own one was the answer to a stop"
    assert is_collateral(peer + summary)
    assert is_collateral(LAST + peer), "one rank's log: the last error counts"


@pytest.mark.parametrize("padding", [0, 1, LAST_BYTES - len(PEER) - 1, LAST_BYTES * 2])
def test_only_the_end_of_a_log_is_read_whatever_its_size(tmp_path: Path, padding: int) -> None:
    log = tmp_path / "log"
    log.write_text("x" * padding + "\n" + PEER)
    assert blames_a_peer(log)
    log.write_text(PEER + "\n" + "x" * padding)
    assert blames_a_peer(log) is (padding < LAST_BYTES - len(PEER))
    log.write_text("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:598] x")
    assert blames_a_peer(log), "from its first byte"
    log.write_text("")
    assert not blames_a_peer(log)


def test_the_last_texts_are_the_meaningful_lines_of_the_end() -> None:
    tail = "".join(f"[rank1]: line {number}\n\n" for number in range(30))
    assert last_texts(tail) == "\n".join(f"line {number}" for number in range(10, 30))
