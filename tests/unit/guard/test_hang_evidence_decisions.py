"""Which processes are the rank, and what is said about them: decisions and texts, with a made-up /proc."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddp_play.guard import hang_evidence, processes


@pytest.mark.parametrize(
    ("text", "endpoint"), [("0100007F:1F90", "127.0.0.1:8080"), ("0" * 31 + "1:0016", "0" * 31 + "1:22")]
)
def test_addresses_are_readable(text: str, endpoint: str) -> None:
    assert hang_evidence._endpoint(text) == endpoint


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
    monkeypatch.setattr(processes, "TICKS_PER_S", 2)
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
