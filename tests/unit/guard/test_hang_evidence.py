"""Looking at ranks before they are ended, with real processes."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.guard import hang_evidence, processes
from tests.waiting import wait_until

LOOP = """import faulthandler; faulthandler.enable()
print('ready', flush=True)
def busy():
    while True: sum(range(99))
busy()"""
SERVE = (
    "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())\n"
    "print('ready', flush=True)\nimport time; time.sleep(600)"
)

Start = Callable[[list[str]], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """A process that has said `ready`; its output is in tmp_path/log."""
    made: list[subprocess.Popen[bytes]] = []

    def begin(words: list[str]) -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            made.append(subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True))
        wait_until(lambda: b"ready" in (tmp_path / "log").read_bytes())
        return made[-1]

    yield begin
    for child in made:
        for pid in [*processes.descendants(child.pid), child.pid]:
            hang_evidence.thaw([pid])
            processes.signal_exactly(pid, processes.start_ticks(pid), signal.SIGKILL)
        child.wait()


def row(pid: int) -> dict[str, Any]:
    return {"state": "running", "pid": pid, "ticks": processes.start_ticks(pid)}


def test_a_busy_rank_is_described_and_frozen(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    seen, texts = hang_evidence.capture({"3": row(child.pid)})
    assert seen["3"]["pid"] == child.pid
    assert seen["3"]["state"] in "RS"
    assert seen["3"]["cpu"] > 0
    assert f"== process {child.pid}: " in texts["3"]
    assert "State:" in texts["3"]
    assert "thread " in texts["3"]
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")


def test_a_stopped_rank_is_seen_as_such(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")
    seen, _ = hang_evidence.capture({"0": row(child.pid)})
    assert (seen["0"]["state"], seen["0"]["cpu"]) == ("T", 0.0)


def test_frozen_ranks_tell_their_stack_and_end(start: Start, tmp_path: Path) -> None:
    child = start([sys.executable, "-c", LOOP])
    hang_evidence.capture({"0": row(child.pid)})
    assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert child.wait(20) == -signal.SIGABRT
    assert b'File "<string>", line 4 in busy' in (tmp_path / "log").read_bytes()
    assert hang_evidence.request_stacks(child.pid, 1) is True  # gone: nothing to do


def test_the_rank_below_its_wrappers_is_asked(start: Start, tmp_path: Path) -> None:
    inner = tmp_path / "own.py"
    inner.write_text(LOOP)
    child = start(["sh", "-c", f"{sys.executable} {inner}; exit 7"])
    main = hang_evidence.main_processes(child.pid)
    assert main == processes.children(child.pid)
    assert main != [child.pid]
    assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert child.wait(20) == 7


def test_its_connections_are_listed(start: Start) -> None:
    child = start([sys.executable, "-c", SERVE])
    rows = hang_evidence.sockets([child.pid])
    assert len(rows) == 1
    assert "127.0.0.1:" in rows[0]
    assert "ESTABLISHED send queue 0 receive queue 0" in rows[0]


def test_ranks_that_do_not_run_are_left_out() -> None:
    ranks: dict[str, dict[str, Any]] = {
        "0": {"state": "exited", "pid": 1, "ticks": 1},
        "1": {"state": "running", "pid": None, "ticks": None},
    }
    assert hang_evidence.capture(ranks) == ({}, {})


def test_processes_that_have_ended_do_not_keep_others_from_being_frozen_and_thawed(start: Start) -> None:
    """A rank that is not thawed never ends."""
    child = start([sys.executable, "-c", LOOP])
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    hang_evidence.freeze([gone.pid, child.pid])
    wait_until(lambda: hang_evidence.state_of(child.pid) == "T")
    hang_evidence.thaw([gone.pid, child.pid])
    wait_until(lambda: hang_evidence.state_of(child.pid) in "RS")
    assert hang_evidence.state_of(gone.pid) == "X"


def test_a_rank_that_is_asked_for_stacks_writes_no_core_file(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be as large as the memory of the rank."""
    child = start([sys.executable, "-c", LOOP])
    sent: list[tuple[int, int, tuple[int, int]]] = []
    real = os.kill

    def kill(pid: int, signum: int) -> None:
        sent.append((pid, signum, resource.prlimit(pid, resource.RLIMIT_CORE)))
        real(pid, signum)

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is True
    assert sent == [(child.pid, signal.SIGABRT, (0, 0)), (child.pid, signal.SIGCONT, sent[1][2])]


@pytest.mark.parametrize(("error", "permitted"), [(PermissionError, False), (ProcessLookupError, True)])
def test_a_rank_that_may_not_be_signalled_is_told_apart_from_one_that_is_gone(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: type[OSError], permitted: bool
) -> None:
    """The engine has to signal the first one."""
    child = start([sys.executable, "-c", LOOP])

    def kill(_pid: int, signum: int) -> None:
        raise error(1, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        assert hang_evidence.request_stacks(child.pid, processes.start_ticks(child.pid)) is permitted


def test_a_process_that_has_the_pid_of_a_rank_now_is_left_alone(start: Start) -> None:
    child = start([sys.executable, "-c", LOOP])
    assert hang_evidence.request_stacks(child.pid, 1) is True
    rows = {"0": {**row(child.pid), "ticks": 1}, "1": {**row(child.pid), "state": "exited"}}
    assert hang_evidence.capture(rows) == ({}, {})
    time.sleep(0.1)
    assert hang_evidence.state_of(child.pid) in "RS"


@pytest.mark.parametrize(
    ("text", "endpoint"), [("0100007F:1F90", "127.0.0.1:8080"), ("0" * 31 + "1:0016", "0" * 31 + "1:22")]
)
def test_addresses_are_readable(text: str, endpoint: str) -> None:
    assert hang_evidence._endpoint(text) == endpoint


# -- decisions, with a made-up /proc -----------------------------------------------------------------------

GONE = 4194399


@pytest.mark.parametrize(
    ("family", "pythons", "launchers", "mains"),
    [
        ({}, {1}, {}, [1]),
        ({1: [2]}, {1, 2}, {}, [1]),
        ({1: [2]}, {2}, {}, [2]),
        ({1: [2, 3], 3: [4]}, {2, 4}, {}, [2, 4]),
        ({1: [2, 3]}, {1, 2, 3}, {1: "torchrun"}, [2, 3]),
        ({1: [2, 3]}, {1, 2, 3}, {1: "python -m torch.distributed.run"}, [2, 3]),
        ({1: [2]}, {1}, {1: "torch/distributed/launch.py"}, [1]),
        ({1: [2]}, set(), {}, []),
    ],
)
def test_the_processes_that_are_the_rank(
    monkeypatch: pytest.MonkeyPatch,
    family: dict[int, list[int]],
    pythons: set[int],
    launchers: dict[int, str],
    mains: list[int],
) -> None:
    monkeypatch.setattr(processes, "children", lambda pid: family.get(pid, []))
    monkeypatch.setattr(hang_evidence, "is_python", lambda pid: pid in pythons)
    monkeypatch.setattr(hang_evidence, "_read", lambda path: launchers.get(int(path.split("/")[2]), "train.py"))
    assert hang_evidence.main_processes(1) == mains


def test_what_python_is() -> None:
    assert hang_evidence.is_python(os.getpid())
    assert not hang_evidence.is_python(GONE)


@pytest.mark.parametrize(("mains", "asked"), [([7, 8], [7, 8]), ([], [5])])
def test_stacks_come_from_the_main_processes_or_else_from_the_first(
    monkeypatch: pytest.MonkeyPatch, mains: list[int], asked: list[int]
) -> None:
    aborted: list[int] = []
    thawed: list[list[int]] = []
    frozen: list[list[int]] = []
    monkeypatch.setattr(hang_evidence, "main_processes", lambda _: mains)
    monkeypatch.setattr(processes, "alive", lambda *_: True)
    monkeypatch.setattr(hang_evidence, "_abort", lambda pid: (aborted.append(pid), pid != 8)[1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(hang_evidence, "thaw", thawed.append)
    monkeypatch.setattr(hang_evidence, "freeze", frozen.append)
    monkeypatch.setattr(hang_evidence, "describe", lambda root, seen: f"{root} {seen['pid']}")
    monkeypatch.setattr(hang_evidence, "SAMPLE_S", 0.01)
    assert hang_evidence.request_stacks(5, 1) is (mains == [])
    assert (aborted, thawed) == (asked, [asked])
    seen, texts = hang_evidence.capture({"3": {"state": "running", "pid": 5, "ticks": 1}})
    assert (seen["3"]["pid"], texts) == (asked[0], {"3": f"5 {asked[0]}"})
    assert frozen == [asked]


def test_the_use_of_the_cpu_is_that_of_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(hang_evidence, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(hang_evidence, "SAMPLE_S", 0.5)
    user_ticks = {7: 0.0, 8: 3.0}

    def stat_fields(pid: int) -> list[str] | None:
        ticks = str(int(10 + user_ticks[pid] * (now[0] - 100.0))) if pid in user_ticks else ""
        return ["D", *["1"] * 10, ticks, "5"] if ticks else None

    monkeypatch.setattr(processes, "stat_fields", stat_fields)
    monkeypatch.setattr(hang_evidence, "TICKS", 2)
    monkeypatch.setattr(hang_evidence, "main_processes", lambda pid: [pid] if pid == 7 else [8, 9])
    monkeypatch.setattr(hang_evidence, "_read", lambda path: path)
    assert hang_evidence.cpu_s(7) == 7.5
    assert hang_evidence.survey({0: 7, 1: 6}) == {
        0: {"pid": 7, "state": "D", "cpu": 0.0, "wchan": "/proc/7/wchan"},
        1: {"pid": 8, "state": "D", "cpu": 1.0, "wchan": "/proc/8/wchan"},
    }
    assert hang_evidence.state_of(GONE) == "X"
    assert hang_evidence.cpu_s(GONE) == 0.0


def test_the_text_about_a_rank_has_all_its_processes_and_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "descendants", lambda _: list(range(6, 40)))
    monkeypatch.setattr(hang_evidence, "_describe_process", lambda pid: f"process {pid}")
    monkeypatch.setattr(hang_evidence, "sockets", lambda pids: [f"{len(pids)} a", "b"])
    seen = {"pid": 6, "state": "D", "cpu": 0.5, "wchan": "nfs_wait"}
    processes_shown = "\n\n".join(f"process {pid}" for pid in range(5, 17))
    first = "main process 6: state D, 0.50 CPUs, waits in nfs_wait"
    assert hang_evidence.describe(5, seen) == f"{first}\n\n{processes_shown}\n\n== sockets\n12 a\nb\n"
    monkeypatch.setattr(hang_evidence, "sockets", lambda _: [])
    assert hang_evidence.describe(5, seen).endswith("== sockets\nnone that can be seen\n")


def test_the_text_about_a_process() -> None:
    lines = hang_evidence._describe_process(os.getpid()).splitlines()
    assert lines[0].startswith(f"== process {os.getpid()}: ")
    assert "\0" not in lines[0]
    names = [line.partition(":")[0] for line in lines]
    assert {"Name", "State", "Threads", "kernel stack"} <= set(names)
    assert "VmPeak" not in names
    assert any(line.startswith(f"thread {os.getpid()} ") and "state R" in line for line in lines)
    assert hang_evidence._describe_process(GONE).splitlines() == [
        f"== process {GONE}: (No such file or directory)",
        "kernel stack:",
        "(No such file or directory)",
    ]


TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 0200007F:0016 08 0000001F:00000100 00:00000000 00000000 0 0 71 1 0000
   1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 71 1 0000
   2: 0100007F:1F90 0200007F:0016 01 00000000:00000000 00:00000000 00000000 0 0 72 1 0000
   3: 0100007F:1F90 0200007F:0017 06 00000000:00000000 00:00000000 00000000 0 0 71
   4: torn"""


def test_connections_are_those_of_the_processes_and_no_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hang_evidence, "socket_inodes", lambda _: {71: 8})
    monkeypatch.setattr(hang_evidence, "_read", lambda path, _limit: TABLE if path == "/proc/7/net/tcp" else "")
    assert hang_evidence.sockets([7, 8]) == [
        "127.0.0.1:8080 -> 127.0.0.2:22 CLOSE_WAIT send queue 31 receive queue 256 (pid 8)",
        "127.0.0.1:8080 -> 127.0.0.2:23 06 send queue 0 receive queue 0 (pid 8)",
    ]


def test_sockets_are_found_by_their_inodes() -> None:
    with socket.socket(socket.AF_UNIX) as mine:
        found = hang_evidence.socket_inodes([GONE, os.getpid()])
        assert found[os.fstat(mine.fileno()).st_ino] == os.getpid()
        assert Path("/dev/null").stat().st_ino not in found
