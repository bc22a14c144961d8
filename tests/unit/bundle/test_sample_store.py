"""Samples on their way into the bundle: clocks, take-over, several attempts, thinning and a full disk."""

from __future__ import annotations

import errno
import math
import os
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import sample_store, writer
from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.sample_store import SampleStore
from ddp_play.bundle.samples import read_samples, samples_of
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DiskFull
from ddp_play.guard import sample_thinning

ABOUT = {"cores": 4}


def store(root: Path, attempt: int = 1) -> SampleStore:
    paths = RunPaths(root)
    return SampleStore(Bundle(paths), paths, attempt)


def row(up: float, seconds: float = 2.0, **fields: Any) -> dict[str, Any]:
    return {"up": up, "s": seconds, **fields}


def found(root: Path) -> list[tuple[float, float]]:
    """(end on the host's clock, length) of each row."""
    return [(each["up"], each["s"]) for each in read_samples(RunPaths(root).samples("a")).rows]


def test_rows_get_the_controllers_time(tmp_path: Path) -> None:
    store(tmp_path).add("a", ABOUT, [row(100.0, cpu=1.0), row(102.0, cpu=2.0)], 105.0)
    samples = read_samples(RunPaths(tmp_path).samples("a"))
    assert samples.header == {"host": "a", "cores": 4, "format": 1}
    assert [each["t"] for each in samples.rows] == pytest.approx([time.time() - 5, time.time() - 3], abs=5)
    assert samples.rows[1] == {"t": samples.rows[1]["t"], "s": 2.0, "attempt": 1, "up": 102.0, "cpu": 2.0}


def test_another_supervisor_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    first = store(tmp_path)
    assert first.offset("a") == {"samples": {"after": 0.0}}
    first.add("a", ABOUT, [row(100.0), row(102.0)], 110.0)
    second = store(tmp_path)
    assert second.offset("a") == {"samples": {"after": 102.0}}
    second.add("a", ABOUT, [row(100.0), row(102.0), row(104.0)], 110.0)
    assert found(tmp_path) == [(100.0, 2.0), (102.0, 2.0), (104.0, 2.0)]
    assert RunPaths(tmp_path).samples("a").read_text().count("cores") == 1


def test_a_row_that_was_merged_meanwhile_counts_only_for_what_is_new(tmp_path: Path) -> None:
    made = store(tmp_path)
    made.add("a", ABOUT, [row(100.0)], 200.0)
    made.add("a", {}, [row(105.0, 10.0), row(105.05, 0.05)], 200.0)
    assert found(tmp_path) == [(100.0, 2.0), (105.0, 5.0)]


def test_attempts_share_the_file_and_a_host_that_was_rebooted_begins_anew(tmp_path: Path) -> None:
    store(tmp_path).add("a", ABOUT, [row(5000.0)], 5000.0)
    second = store(tmp_path, 2)
    assert second.offset("a") == {"samples": {"after": 0.0}}
    second.add("a", ABOUT, [row(60.0)], 60.0)
    rows = read_samples(RunPaths(tmp_path).samples("a")).rows
    assert sorted((each["attempt"], each["up"]) for each in rows) == [(1, 5000.0), (2, 60.0)]


def test_thinned_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_store, "LEAST_BYTES", 20_000)
    monkeypatch.setattr(sample_store, "THIN_SHARE", math.inf)
    made = store(tmp_path)
    for block in range(40):
        rows = [row(10.0 * (block * 100 + count + 1), 10.0, cpu=1.0) for count in range(100)]
        made.add("a", ABOUT, rows, 40_000.0)
    rows = read_samples(RunPaths(tmp_path).samples("a")).rows
    assert sum(each["s"] for each in rows) == pytest.approx(40_000)
    assert len(rows) < 1600
    assert RunPaths(tmp_path).samples("a").stat().st_size < 150_000


def test_however_large_its_rows_the_file_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_store, "LEAST_BYTES", 10_000)
    monkeypatch.setattr(sample_store, "MOST_BYTES", 30_000)
    monkeypatch.setattr(sample_store, "THIN_SHARE", math.inf)
    made = store(tmp_path)
    for count in range(1, 300):
        made.add("a", ABOUT, [row(2.0 * count, nics={f"eth{n}": [1, 1] for n in range(50)})], 600.0)
    assert RunPaths(tmp_path).samples("a").stat().st_size < 70_000
    assert found(tmp_path)[-1] == (598.0, 2.0)


def test_files_that_are_due_at_once_do_not_keep_the_supervisor_from_its_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that are alike grow alike, and each file takes a third of a second after some hours."""
    monkeypatch.setattr(sample_store, "LEAST_BYTES", 1000)
    monkeypatch.setattr(sample_store, "FULL_BYTES", 6000)
    monkeypatch.setattr(sample_store, "THIN_SHARE", 0.001)
    thinned: list[str] = []

    def slow(rows: Any, now: float) -> Any:
        thinned.append("")
        time.sleep(0.1)
        return sample_thinning.thinned(rows, now)

    monkeypatch.setattr(sample_store, "thinned", slow)
    made = store(tmp_path)
    for count in range(1, 200):
        for host in ("a", "b", "c"):
            made.add(host, ABOUT, [row(2.0 * count, cpu=1.0)], 600.0)
    assert len(thinned) == 1, "then hosts are served for a thousand times as long"
    assert RunPaths(tmp_path).samples("b").stat().st_size < 7000, "what waits for its turn has a limit"


def test_the_newest_row_of_an_attempt_is_found_among_those_of_others(tmp_path: Path) -> None:
    first, second, other = store(tmp_path, 1), store(tmp_path, 2), store(tmp_path, 11)
    for count in range(1, 2000):
        first.add("a", ABOUT, [row(2.0 * count, cpu=1.0)], 9000.0)
    second.add("a", ABOUT, [row(60.0)], 60.0)
    other.add("a", ABOUT, [row(80.0)], 80.0)
    first.add("a", {}, [row(4000.0)], 9000.0)
    for attempt, newest in ((1, 4000.0), (2, 60.0), (11, 80.0), (3, 0.0)):
        assert store(tmp_path, attempt).offset("a") == {"samples": {"after": newest}}
    third = store(tmp_path, 3)
    third.add("a", ABOUT, [row(10.0)], 10.0)
    assert RunPaths(tmp_path).samples("a").read_text().count("cores") == 1, "the header is known"


def test_a_restart_waits_for_no_reading_of_all_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store(tmp_path)
    made.add("a", ABOUT, [row(2.0 * count, cpu=1.0) for count in range(1, 3000)], 9000.0)
    parsed: list[int] = []

    def counted(lines: list[bytes]) -> Any:
        parsed.append(len(lines))
        return samples_of(lines)

    monkeypatch.setattr(sample_store, "samples_of", counted)
    assert store(tmp_path).offset("a") == {"samples": {"after": 5998.0}}
    assert store(tmp_path, 2).offset("a") == {"samples": {"after": 0.0}}
    assert 0 < sum(parsed) < 1500


def test_what_did_not_fit_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = store(tmp_path)
    made.add("a", ABOUT, [row(100.0)], 110.0)
    with monkeypatch.context() as patch:
        patch.setattr(writer, "_append", refuse(errno.ENOSPC))
        with pytest.raises(DiskFull):
            made.add("a", {}, [row(102.0)], 110.0)
    assert made.offset("a") == {"samples": {"after": 100.0}}
    made.add("a", {}, [row(102.0)], 110.0)
    assert found(tmp_path) == [(100.0, 2.0), (102.0, 2.0)]


def test_another_problem_of_the_disk_does_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_append", refuse(errno.EIO))
    store(tmp_path).add("a", ABOUT, [row(100.0)], 110.0)
    assert found(tmp_path) == []


def refuse(number: int) -> Any:
    def fail(_path: Path, _data: bytes) -> None:
        raise OSError(number, os.strerror(number))

    return fail
