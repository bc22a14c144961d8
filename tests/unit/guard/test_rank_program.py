"""A program in the ranks' Python: its parts, its limit, and that nothing of it remains."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ddp_play.guard import leases, processes
from ddp_play.guard.rank_program import busy, counters, run, with_port
from tests.waiting import wait_until

SAY = "import json, sys\ndef say(**row): print(json.dumps(row), flush=True)\norder = json.loads(sys.argv[1])\n"


def test_a_program_gets_its_order_and_prints_parts() -> None:
    found = run(sys.executable, SAY + "say(part='start', n=order['n']); print('noise'); print('[1]')", {"n": 3}, 30)
    assert found["parts"] == [{"part": "start", "n": 3}]
    assert "problem" not in found
    assert found["before"].keys() == found["after"].keys()


def test_what_was_printed_before_an_error_is_kept() -> None:
    found = run(sys.executable, SAY + "say(part='start'); raise ValueError('no such GPU')", {}, 30)
    assert found["parts"] == [{"part": "start"}]
    assert found["problem"] == "ValueError: no such GPU"
    silent = run(sys.executable, "import sys; sys.exit(3)", {}, 30)
    assert silent["problem"] == "exit code 3"


def test_a_program_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = SAY + (
        "import subprocess, time\nchild = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\nsay(part='start')\ntime.sleep(600)"
    )
    found = run(sys.executable, code, {}, 5.0)
    assert found["parts"] == [{"part": "start"}]
    assert found["problem"] == "no end within 5 s"
    pid = int(mark.read_text())
    wait_until(lambda: not processes.alive(pid, None), timeout_s=20)


def test_a_program_that_closes_its_output_and_stays_is_ended_too() -> None:
    found = run(sys.executable, "import os, time; os.close(1); os.close(2); time.sleep(600)", {}, 2.0)
    assert found["problem"] == "no end within 2 s"


def test_a_python_that_is_missing_is_an_error() -> None:
    with pytest.raises(OSError, match="No such file"):
        run("/no/such/python3", "", {}, 5)


def test_a_port_belongs_to_no_run_while_it_is_used() -> None:
    held: list[bool] = []

    def begin() -> dict[str, bool]:
        lease = leases.hold("port-29521")
        held.append(lease is None)
        if lease is not None:
            lease.close()
        return {"begun": True}

    with leases.hold("port-29521") or pytest.fail("somebody has the lease"):
        assert with_port(29521, begin) == busy(29521)
    assert held == []
    assert with_port(29521, begin) == with_port(None, begin) == {"begun": True}
    assert held == [True, False]


def test_counters_of_the_host(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  100 0 50 1000 5 1 2 30 0 0\ncpu0 1 2\n")
    for cpu, count in (("cpu0", "2"), ("cpu1", "3")):
        folder = tmp_path / "sys/devices/system/cpu" / cpu / "thermal_throttle"
        folder.mkdir(parents=True)
        (folder / "core_throttle_count").write_text(count + "\n")
    per_s = os.sysconf("SC_CLK_TCK")
    assert counters(str(tmp_path)) == {
        "times_held_back": 0, "times_too_hot": 5, "busy_s": 153 / per_s, "stolen_s": 30 / per_s,
    }  # fmt: skip
    assert counters(str(tmp_path / "nothing"))["busy_s"] == 0.0
