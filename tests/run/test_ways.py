"""Ways to meet on this machine: explicit stores with a script of its own, and torchrun, failures included."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.planning.rendezvous import FILE_STORE_SCRIPT, TCP_STORE_SCRIPT
from tests.run.conftest import LOCAL, Play, alive
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

HEAD = """
import os, urllib.parse
import torch
import torch.distributed as dist
rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
backend = os.environ["DDP_PLAY_BACKEND"]
"""
TAIL = """
value = torch.ones(1) * (rank + 1)
dist.all_reduce(value)
print("rank", rank, "of", world_size, "on", os.environ["LOCAL_RANK"], "sum", int(value), flush=True)
dist.destroy_process_group()
"""
USUAL = ('dist.init_process_group(backend, init_method=os.environ["DDP_PLAY_INIT_METHOD"], rank=rank, '
         "world_size=world_size)",)  # fmt: skip


def meet(play: Play, lines: tuple[str, ...], **variables: Any) -> Any:
    """Run a script that meets by these lines."""
    play.write("code/own.py", HEAD + "\n".join(lines) + TAIL)
    return play("run", play.job({"source": "code", "command": "python own.py", **variables}), "-i", LOCAL)


@pytest.mark.machine_network
@pytest.mark.parametrize(
    ("lines", "variables"),
    [
        (TCP_STORE_SCRIPT, {"init_method": "store"}),
        (FILE_STORE_SCRIPT, {"init_method": "store", "store": "file"}),
        (USUAL, {"launcher": "torchrun"}),
        (USUAL, {"launcher": "torchrun", "rdzv": "c10d"}),
        *(
            pytest.param(*row, marks=pytest.mark.long)
            for row in (
                (FILE_STORE_SCRIPT, {"init_method": "store", "store": "file", "launcher": "torchrun"}),
                (USUAL, {"launcher": "torchrun", "init_method": "tcp"}),
                (USUAL, {"launcher": "torchrun", "init_method": "file"}),
            )
        ),
    ],
)
def test_a_script_meets_in_the_documented_lines(play: Play, lines: tuple[str, ...], variables: dict[str, Any]) -> None:
    done = meet(play, lines, **variables)
    assert done.code == 0, done.err
    for rank in (0, 1):
        log = (play.newest() / "logs" / f"rank-{rank}.log").read_text()
        assert log == f"rank {rank} of 2 on {rank} sum 3\n"
    assert play.left_on_host() == []


FAILS = """
import os, sys, time
print("here", os.environ["RANK"], flush=True)
time.sleep(1 if os.environ["RANK"] == "1" else 600)
sys.exit(7)
"""


def test_under_torchrun_the_first_failure_has_its_rank_and_code(play: Play, tmp_path: Path) -> None:
    play.write("code/own.py", FAILS)
    (tmp_path / "tmp").mkdir()
    job = {"source": "code", "command": "python own.py", "launcher": "torchrun"}
    done = play("run", play.job({**job, "env": {"TMPDIR": str(tmp_path / "tmp")}}), "-i", LOCAL)
    assert done.code == 7, done.err
    document = play.document()
    assert document["verdict"]["rank"] == 1
    rows = {row["rank"]: row for row in document["ranks"]}
    assert (rows[0]["signal"], rows[0]["stopped"]) == (signal.SIGTERM, True)
    assert (rows[1]["exit_code"], rows[1]["stopped"]) == (7, False)
    assert "exitcode  : 7" in (play.newest() / "logs" / "torchrun-localhost.log").read_text()
    assert play.left_on_host() == []
    assert list((tmp_path / "tmp").glob("torchelastic_*")) == []


SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGUSR1, save)
print("ready", *sys.argv[1:], flush=True)
time.sleep(600)
"""


def test_a_stop_reaches_the_ranks_through_torchrun(play: Play) -> None:
    play.write("code/own.py", SAVES)
    command = ["python", "own.py", "a$$b"]
    job = play.job({"source": "code", "command": command, "launcher": "torchrun", "signal": "USR1"})
    child = play.start("run", job, "-i", LOCAL, "--name", "to-stop")
    logs = [play.home / "runs" / "to-stop" / "logs" / f"rank-{rank}.log" for rank in (0, 1)]
    wait_until(lambda: all(log.exists() and "ready" in log.read_text() for log in logs), timeout_s=60)
    state = play.place("to-stop") / "state.json"
    pids = wait_until(lambda: [row["pid"] for row in json.loads(state.read_text())["ranks"].values() if row["pid"]])
    assert all(map(alive, pids)), "the watchdog and the warning reach them by these"
    assert play("stop", "to-stop").code == 0
    child.communicate(timeout=60)
    assert [log.read_text() for log in logs] == ["ready a$$b\nsaved\n"] * 2
    assert play.left_on_host() == []


@pytest.mark.long
def test_the_warning_before_the_end_reaches_the_ranks_under_torchrun(play: Play) -> None:
    play.write("code/own.py", SAVES)
    job = {"source": "code", "command": "python own.py", "launcher": "torchrun", "max_duration": 40, "warn_before": 25}
    done = play("run", play.job(job), "-i", LOCAL)
    assert done.code == 0, done.err
    assert [(play.newest() / "logs" / f"rank-{rank}.log").read_text() for rank in (0, 1)] == ["ready\nsaved\n"] * 2


def test_a_python_without_torchrun_says_so_in_the_ranks_logs(play: Play) -> None:
    job = play.job({"command": ["/usr/bin/python3", "-S", "x.py"], "launcher": "torchrun"})
    done = play("run", job, "-i", LOCAL)
    assert done.code == 1, done.err
    log = (play.newest() / "logs" / "rank-1.log").read_text()
    assert "torchrun ended before this rank did" in log
    assert "No module named" in log
