"""What a guard records of a run's use of its host: nothing twice, little lost, and no file that grows for ever."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import daemon, usage_record
from ddp_play.guard.run_directory import HostRun
from ddp_play.guard.sample_file import SampleFile
from ddp_play.guard.usage_record import LOCK, NAME, UsageRecord, compact, merged, rows_of
from tests.waiting import wait_until

SPEC = {"host": "a", "owner": "kim", "ranks": [{"rank": 0}, {"rank": 1}]}
SOURCES = str(Path(daemon.__file__).parents[1])


def place(base: Path, attempt: int = 1) -> HostRun:
    return HostRun(base / "runs" / "night.0123456789abcdef" / f"{attempt}.a")


def recorded(base: Path) -> list[dict[str, Any]]:
    path = base / NAME
    return rows_of(path.read_bytes()) if path.exists() else []


def row(start: float, seconds: float, **fields: Any) -> dict[str, Any]:
    return {"run": "night.0123456789abcdef", "attempt": 1, "slots": 2, "from": start, "s": seconds, **fields}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The host's uptime, which the test moves."""
    now = [100.0]
    monkeypatch.setattr(usage_record, "uptime_s", lambda: now[0])
    return now


def test_a_row_each_minute_and_one_at_the_end(tmp_path: Path, clock: list[float]) -> None:
    record = UsageRecord(SPEC, place(tmp_path))
    clock[0] = 500.0  # waiting for the start signal counts for nothing
    record.begin()
    for clock[0] in (501.0, 559.0, 561.0, 600.0):
        record.keep()
    record.end()
    rows = recorded(tmp_path)
    assert [each["s"] for each in rows] == [61.0, 39.0]
    same = {"run": "night.0123456789abcdef", "attempt": 1, "host": "a", "owner": "kim", "slots": 2}
    assert {name: value for name, value in rows[0].items() if name not in ("from", "s")} == same


def test_a_guard_that_is_killed_has_recorded_all_but_the_last_minute(tmp_path: Path) -> None:
    code = (
        f"import sys, time; sys.path.insert(0, {SOURCES!r})\n"
        "from guard import run_directory, usage_record as u\nfrom pathlib import Path\nu.EVERY_S = 0.1\n"
        f"record = u.UsageRecord({SPEC!r}, run_directory.HostRun(Path({str(place(tmp_path).root)!r})))\n"
        "while True: record.keep(); time.sleep(0.02)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as child:
        wait_until(lambda: len(recorded(tmp_path)) >= 5, timeout_s=60, what="five rows")
        child.send_signal(signal.SIGKILL)
    rows = recorded(tmp_path)
    (whole,) = merged(rows)
    assert whole["s"] == pytest.approx(sum(each["s"] for each in rows), abs=0.01)


def test_a_row_waits_while_another_guard_writes(tmp_path: Path, clock: list[float]) -> None:
    record = UsageRecord(SPEC, place(tmp_path))
    with (tmp_path / LOCK).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        clock[0] += 61
        record.keep()
        record.end()
        assert recorded(tmp_path) == []
    clock[0] += 1
    record.keep()
    assert [each["s"] for each in recorded(tmp_path)] == [62.0]


def test_a_disk_that_takes_nothing_ends_nothing(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    record = UsageRecord(SPEC, place(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(usage_record, "_append", full)
        clock[0] += 61
        record.keep()
    (tmp_path / NAME).write_bytes(b'{"run": "nig')  # half a row
    clock[0] += 10
    record.end()
    assert [each["s"] for each in recorded(tmp_path)] == [10.0]


def test_rows_tell_how_busy_the_gpus_of_the_slots_were(tmp_path: Path, clock: list[float]) -> None:
    where = place(tmp_path)
    where.root.mkdir(parents=True)
    record, samples = UsageRecord({**SPEC, "gpus": [1]}, where), SampleFile(where.samples, {})
    record.begin()
    samples.start()
    for at in range(1, 71):
        clock[0] += 1
        samples.append({"up": clock[0], "s": 1, "gpus": {"0": {"utilization": 99}, "1": {"utilization": 40 + at % 2}}})
        if at == 65:  # the row waits for another guard, and covers more
            record.keep()
        elif at == 62:
            with (tmp_path / LOCK).open("w") as other:
                fcntl.flock(other, fcntl.LOCK_EX)
                record.keep()
    record.end()
    rows = recorded(tmp_path)
    assert [(each["s"], each["gpu_s"], each["gpu_busy_s"]) for each in rows] == [(65.0, 65.0, 26.33), (5.0, 5.0, 2.02)]


def test_an_attempt_elsewhere_has_no_record(tmp_path: Path, clock: list[float]) -> None:
    record = UsageRecord(SPEC, HostRun(tmp_path))
    clock[0] += 61
    record.keep()
    record.end()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("rows", "lengths"),
    [
        ([], []),
        ([row(0, 60), row(60, 60), row(121, 9)], [129]),
        ([row(60, 60), row(0, 60)], [120]),
        ([row(0, 60), row(80, 60)], [60, 60]),
        ([row(0, 60), row(60, 60, attempt=2)], [60, 60]),
        ([row(0, 60), row(0, 60, run="other"), row(60, 1), row(60, 1, run="other")], [61, 61]),
    ],
    ids=["none", "one attempt", "order", "gap", "attempts", "runs at once"],
)
def test_rows_that_follow_each_other_become_one(rows: list[dict[str, Any]], lengths: list[float]) -> None:
    assert [each["s"] for each in merged(rows)] == lengths


def test_the_file_stays_small_and_keeps_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_record, "COMPACT_BYTES", 4000)
    monkeypatch.setattr(usage_record, "MOST_BYTES", 2000)
    clock = [0.0]
    monkeypatch.setattr(usage_record, "uptime_s", lambda: clock[0])
    for attempt in range(1, 101):
        record = UsageRecord(SPEC, place(tmp_path, attempt))
        for _ in range(10):
            clock[0] += 60
            record.keep()
    assert (tmp_path / NAME).stat().st_size < 5000
    assert recorded(tmp_path)[-1]["attempt"] == 100
    compact(tmp_path / NAME)
    assert (tmp_path / NAME).stat().st_size <= 2000


def test_a_file_that_ends_a_byte_before_the_bound_is_compacted_by_the_next_row(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_record, "COMPACT_BYTES", 4000)
    (tmp_path / NAME).write_bytes(b"x" * 3998 + b"\n")
    record = UsageRecord(SPEC, place(tmp_path))
    clock[0] += 61
    record.keep()
    assert (tmp_path / NAME).stat().st_size < 1000


def test_seconds_of_gpus_are_summed_and_absent_where_no_row_has_them() -> None:
    before, first, second = row(0, 60), row(60, 60, gpu_s=120, gpu_busy_s=90.5), row(120, 9, gpu_s=18, gpu_busy_s=0)
    assert merged([before, row(60, 60)]) == [row(0, 120)]
    assert merged([before, first, second]) == [row(0, 129, gpu_s=138, gpu_busy_s=90.5)]
    assert merged([row(0, 60, gpu_s="x", gpu_busy_s=1), second]) == [
        row(0, 60, gpu_s="x", gpu_busy_s=1),
        second,
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"x", b"[]", b'{"from": 1, "s": 2}', b'{"from": "1", "s": 2, "slots": 1}',
        b'{"from": 1, "s": 2, "slots": 1e300}', b'{"from": NaN, "s": 2, "slots": 1}',
        b'{"from": 1, "s": -2, "slots": 1}',
        b'{"from": 1, "s": 1e999, "slots": 1}', b'{"from": 1, "s": 2, "slots": 1, "attempt": [1]}',
        b'{"from": 1, "s": 2, "slots": 1, "x": {}}',
    ],
)  # fmt: skip
def test_lines_that_are_no_rows(line: bytes) -> None:
    assert rows_of(line) == []
