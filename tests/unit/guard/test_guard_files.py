"""What the files of guards say: only those of their own user, cut to size, and within a time although a mount hangs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import guard_files
from ddp_play.guard.bounded_reading import read_all
from ddp_play.guard.guard_files import Claim, GuardFiles, read_specs
from ddp_play.guard.run_directory import HostRun

ROOT = Path(__file__).resolve().parents[3]
ME = os.geteuid()


def told(root: Path, *, is_known: bool = False, uid: int = ME) -> dict[str, Any]:
    return GuardFiles().read({7: Claim(HostRun(root), uid, is_known)})[7]


@pytest.mark.usefixtures("patient_readings")
@pytest.mark.parametrize(
    ("content", "spec"),
    [
        (b'{"owner": "kim", "ranks": [1]}', {"owner": "kim"}),
        (b'{"created": 5, "controller": "login2"}', {"created": 5, "controller": "login2"}),
        (b'{"created": "x", "owner": 5, "controller": ["login2"]}', {}),
        (b'{"created": NaN}', {}),
        (b'{"created": ' + b"9" * 400 + b"}", {}),
        (b'{"created": true}', {}),
        (b"[1]", {}),
        (b"torn", {}),
        (b"[" * 100000, {}),
        (None, {}),
    ],
)
def test_a_spec_is_an_object_of_the_user_of_the_process(
    tmp_path: Path, content: bytes | None, spec: dict[str, Any]
) -> None:
    """A neighbour can claim any directory in its command line."""
    place = HostRun(tmp_path)
    if content is not None:
        place.spec.write_bytes(content)
    ours, foreign = Claim(place, ME), Claim(place, ME + 1)
    assert read_specs([ours, foreign]) == {ours: spec, foreign: {}}


@pytest.mark.usefixtures("patient_readings")
def test_a_text_is_cut(tmp_path: Path) -> None:
    HostRun(tmp_path).spec.write_text(json.dumps({"owner": "z" * 1_000_000}))
    assert len(next(iter(read_specs([Claim(HostRun(tmp_path), ME)]).values()))["owner"]) == guard_files.MAX_NAME


@pytest.mark.usefixtures("patient_readings")
def test_the_state_of_an_attempt(tmp_path: Path) -> None:
    place = HostRun(tmp_path)
    place.spec.write_text(json.dumps({"owner": "kim"}))
    ranks: dict[str, Any] = {
        "0": {"state": "running", "pid": 11},
        "1": {"state": "exited", "pid": 12},
        "2": {"state": "running", "pid": "x"},
        "3": {"state": "odd"},
        "4": 5,
    }
    place.state.write_text(json.dumps({"phase": "running", "ranks": ranks}))
    assert told(tmp_path) == {"owner": "kim", "phase": "running", "ranks": {"running": 2, "exited": 1}, "pids": [11]}
    assert told(tmp_path, is_known=True)["owner"] == "", "it is not read again"
    assert told(tmp_path, uid=ME + 1) == {"owner": "", "problem": f"no state in {tmp_path}"}


@pytest.mark.usefixtures("patient_readings")
def test_odd_files_of_one_guard_hide_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good").mkdir()
    HostRun(tmp_path / "good").state.write_text('{"phase": "running"}')

    def breaks(place: HostRun, _uid: int) -> dict[str, Any]:
        return {"owner": 1 / (place.root.name != "odd")}

    monkeypatch.setattr(guard_files, "_spec", breaks)
    found = GuardFiles().read({n: Claim(HostRun(tmp_path / name), ME) for n, name in enumerate(("odd", "good"))})
    assert found[0] == {"problem": f"{tmp_path}/odd: division by zero"}
    assert found[1]["phase"] == "running"


def test_nothing_to_read_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", None)
    assert GuardFiles().read({}) == {}


def test_a_slow_answer_is_asked_for_again_soon_and_a_hang_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked = [100.0], []

    def answer(wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
        asked.append(clock[0])
        return {name: {"problem": "no answer", "took_s": 2.0} for name in wanted}

    monkeypatch.setattr(guard_files, "read_all", lambda wanted: answer(wanted) if wanted else {})
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    files = GuardFiles()
    for _ in range(2000):
        assert "problem" in files.read({7: Claim(HostRun(tmp_path), ME)})[7]
        clock[0] += 1
    assert [after - before for before, after in itertools.pairwise(asked)] == [
        10,
        20,
        40,
        80,
        160,
        300,
        300,
        300,
        300,
        300,
    ]


@pytest.mark.skipif(ME != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse")
def test_a_file_system_that_hangs_hangs_nobody(tmp_path: Path) -> None:
    """Nobody can end what waits for it, so its directory is not read again, and others are.

    All guards of runs with become are root's, in the homes of many. Of another user nothing is read again.
    """
    HostRun(tmp_path).state.write_text('{"phase": "running"}')
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.guard.hung_home", str(tmp_path / "home"), str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second, specs, again = (json.loads(line) for line in done.stdout.splitlines())
    silent = "no answer within 2 s"
    hung = {"1": f"{tmp_path}/home/1.h1", "3": f"{tmp_path}/home/2.h1", "4": f"{tmp_path}"}
    problems = {pid: {"problem": f"{place}: {silent}"} for pid, place in hung.items()}
    assert first["told"] == {**problems, "2": {"owner": "", "phase": "running", "ranks": {}, "pids": []}}
    assert second["told"] == first["told"]
    assert 2 <= first["took_s"] < 10
    assert second["took_s"] < 2, "those that hung were not asked"
    assert specs["told"] == again["told"] == [problems["1"], {}, problems["3"], problems["4"]]
    assert 2 <= specs["took_s"] < 10
    assert again["took_s"] < 2


def test_many_claims_start_few_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []

    def counted(wanted: dict[str, Any]) -> dict[str, dict[str, Any]]:
        started.append(len(wanted))
        return read_all(wanted)

    monkeypatch.setattr(guard_files, "read_all", counted)
    monkeypatch.setattr(guard_files, "LIMIT_S", 60.0)  # so many processes of pytest's size take their time to start
    claims = [Claim(HostRun(tmp_path / str(n)), ME) for n in range(guard_files.MAX_CLAIMS + 5)]
    assert GuardFiles().specs(claims) == {key: {} for key in claims}
    of_another = [Claim(HostRun(tmp_path / str(n)), ME + 1) for n in range(5)]
    assert GuardFiles().specs(of_another) == {key: {} for key in of_another}
    assert started == [guard_files.MAX_CLAIMS, 1]
