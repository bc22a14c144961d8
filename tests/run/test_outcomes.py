"""How runs end: well, by a rank's failure, by a stop, by a time limit; and what each leaves (nothing)."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.endings import kill_each
from tests.run.conftest import LOCAL, Play, living
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

SOON_S = 25  # less than the 30 s that ranks have by default between SIGTERM and SIGKILL
SLEEPER = """
import os, subprocess, sys, time
rank = int(os.environ["RANK"])
print("rank", rank, "is here", flush=True)
if rank == 1 and len(sys.argv) > 1:
    time.sleep(1)
    sys.exit(int(sys.argv[1]))
subprocess.Popen(["sleep", "1234"])
subprocess.Popen(["setsid", "sleep", "1234"])
time.sleep(600)
"""


def test_first_failure_ends_the_gang_and_its_children(play: Play) -> None:
    play.write("own.py", SLEEPER)
    job = play.job({"source": ".", "command": ["python", "own.py", "7"]})
    done = play("run", job, "-i", LOCAL)
    assert done.code == 7, done.err
    document = play.document()
    assert document["verdict"]["rank"] == 1
    assert document["verdict"]["host"] == "localhost"
    assert document["exit_class"] == "rank_failed"
    failed = next(row["ended"] for row in document["ranks"] if row["rank"] == 1)
    assert document["ended"] - failed < SOON_S
    assert "rank 1 on localhost failed first: exit code 7" in done.err
    assert "rank 1 is here" in done.err  # the tail of ITS log
    wait_until(lambda: not living(str(play.host_dir)), timeout_s=60, what="every process of the run is gone")
    assert play.left_on_host() == []


def test_a_rank_that_ignores_the_stop_is_killed(play: Play) -> None:
    play.write(
        "own.py",
        "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "time.sleep(1) if os.environ['RANK'] == '1' else time.sleep(600)\nsys.exit(3)\n",
    )
    done = play("run", play.job({"source": ".", "command": ["python", "own.py"]}), "-i", LOCAL)
    assert done.code == 3
    document = play.document()
    assert document["ranks"][0]["signal"] == signal.SIGKILL
    assert document["ranks"][0]["stopped"] is True
    failed = next(row["ended"] for row in document["ranks"] if row["rank"] == 1)
    assert document["ended"] - failed < SOON_S


def test_one_rank_ends_well_and_one_does_not(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "exit $((RANK * 3))"]})
    done = play("run", job, "-i", LOCAL)
    assert done.code == 3
    assert play.document()["status"] == "failed"


def test_a_signal_is_128_and_its_number(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "test $RANK = 0 && sleep 100; kill -SEGV $$"]})
    done = play("run", job, "-i", LOCAL)
    assert done.code == 128 + signal.SIGSEGV
    assert "SIGSEGV" in done.err


def test_a_command_that_does_not_exist(play: Play) -> None:
    done = play("run", play.job({"command": ["no-such-program"]}), "-i", LOCAL)
    assert done.code == 127
    assert "not found" in done.err


def test_max_duration_and_idle_timeout(play: Play) -> None:
    job = play.job({"command": ["sleep", "100"], "max_duration": 2, "grace": 2})
    done = play("run", job, "-i", LOCAL)
    assert (done.code, play.document()["exit_class"]) == (124, "max_duration"), done.err
    job = play.job({"command": ["sh", "-c", "echo begun; sleep 100"], "idle_timeout": 2})
    done = play("run", job, "-i", LOCAL)
    assert (done.code, play.document()["exit_class"]) == (124, "idle"), done.err
    wait_until(lambda: not living(str(play.host_dir)), timeout_s=60, what="every process of the run is gone")


def test_ctrl_c_stops_gracefully_and_says_130(play: Play) -> None:
    play.write(
        "own.py",
        "import signal, sys, time\n"
        "def save(*_):\n    print('saved', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\ntime.sleep(600)\n",
    )
    job = play.job({"source": ".", "command": ["python", "own.py"]})
    child = play.start("run", job, "-i", LOCAL, "--name", "interrupted")
    log = play.home / "runs" / "interrupted" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and b"ready" in log.read_bytes(), what="rank 0 is ready")
    os.kill(child.pid, signal.SIGINT)
    assert child.wait(30) == 130
    assert log.read_bytes() == b"ready\nsaved\n"
    assert play.document()["status"] == "stopped"
    assert play.left_on_host() == []


def test_detach_ps_attach_stop(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "echo begun; sleep 600"]})
    started = play("run", job, "-i", LOCAL, "-d", "--name", "night-1")
    assert started.out.strip() == "night-1"
    log = play.home / "runs" / "night-1" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n")
    rows = play("ps", "--json").json["runs"]
    assert [(row["run"], row["status"], row["attended"]) for row in rows] == [("night-1", "running", True)]
    on_hosts = play("ps", "-i", LOCAL, "--json").json["on_hosts"]
    assert [(row["run"], row["guard_alive"]) for row in on_hosts] == [("night-1", True)]
    assert "RANK=1" in play("exec", "night-1", "--rank", "1", "--", "cat", "/proc/self/environ").out.split("\0")
    viewer = play.start("attach", "night")
    time.sleep(1)
    stopped = play("stop", "night-1")
    assert stopped.code == 0
    assert viewer.wait(20) == 130
    assert play("attach", "night-1").code == 130
    assert play("gc", "-i", LOCAL, "--json").json["removable"] == []


def test_stop_now(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "trap '' TERM; echo begun; sleep 600"]})
    play("run", job, "-i", LOCAL, "-d", "--name", "stubborn")
    log = play.home / "runs" / "stubborn" / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n")
    before = time.monotonic()
    play("stop", "stubborn", "--now")
    assert time.monotonic() - before < SOON_S
    assert {row["signal"] for row in play.document()["ranks"]} == {signal.SIGKILL}


def controller_processes(play: Play) -> list[int]:
    """Everything of the run on the controller's side: not the guard, not the ranks."""
    found = []
    for pid in living(str(play.home)):
        words = Path(f"/proc/{pid}/cmdline").read_text()
        if "guard-" not in words or "channel" in words:
            found.append(pid)
    return found


def test_a_killed_controller_loses_nothing(play: Play) -> None:
    play.write(
        "own.py",
        "import os, time\nfor i in range(60):\n"
        "    print(os.environ['RANK'], 'line', i, flush=True)\n    time.sleep(0.2)\n",
    )
    job = play.job({"source": ".", "command": ["python", "own.py"]})
    play("run", job, "-i", LOCAL, "-d", "--name", "orphan")
    log = play.home / "runs" / "orphan" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and b"line 5\n" in log.read_bytes())
    kill_each(controller_processes(play))
    wait_until(lambda: not play("ps", "--json").json["runs"][0]["attended"])
    assert "unattended" in play("ps").out
    done = play("attach", "orphan")
    assert done.code == 0, done.err
    for rank in (0, 1):
        text = (play.home / "runs" / "orphan" / "logs" / f"rank-{rank}.log").read_text()
        assert text == "".join(f"{rank} line {i}\n" for i in range(60))
    assert play.document()["status"] == "succeeded"
    assert play.left_on_host() == []
