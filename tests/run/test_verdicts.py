"""Verdicts on real ends: a refused connection that is no lost peer, and an exit code that torch's teardown replaced."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]

REFUSED = """
import os, socket, time, urllib.request
if os.environ["RANK"] == "1":
    time.sleep(600)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
urllib.request.urlopen(f"http://127.0.0.1:{port}/train.tar")
"""
NO_DESTROY = """
import os, sys, threading, time
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
inside = threading.Event()
def reduce():
    while True:
        dist.all_reduce(torch.ones(1000))
        inside.set()
threading.Thread(target=reduce, daemon=True).start()
inside.wait(60)
time.sleep(0.2)
if os.environ["RANK"] == "1":
    sys.exit(7)
time.sleep(600)
"""
# NCCL dumps when a collective times out; gloo is asked to, and its dump gets the name of the group that NCCL writes.
NEVER_ENTERED = """
import datetime, os, pickle, sys, time
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
for _ in range(3):
    dist.all_reduce(torch.ones(8))
dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=3))
error = None
try:
    dist.all_gather([torch.ones(8), torch.ones(8)], torch.ones(8)) if rank == 0 else time.sleep(6)
except RuntimeError as caught:
    error = caught
dump = pickle.loads(_dump_fr_trace(True, True, False))
dump["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
for entry in dump["entries"]:
    entry["retired"] = entry["state"] == "completed"
own = os.path.dirname(os.environ["DDP_PLAY_METRICS"])
with open(f"{own}/flight-recorder-{rank}", "wb") as file:
    pickle.dump(dump, file)
if error is None:
    time.sleep(600)
while not os.path.exists(f"{own}/../rank-1/flight-recorder-1"):
    time.sleep(0.1)
time.sleep(0.5)
raise error
"""


def test_a_data_set_that_is_refused_is_no_lost_peer(play: Play) -> None:
    play.write("own.py", REFUSED)
    done = play("run", play.job({"source": ".", "command": ["python", "own.py"]}), "-i", LOCAL)
    verdict = play.document()["verdict"]
    assert (done.code, verdict["rank"]) == (1, 0), done.err
    assert verdict["message"] == "rank 0 on localhost failed first: exit code 1; rank 1 ended because of it"
    assert verdict["error"] == "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>"


def test_an_exit_without_destroy_process_group(play: Play) -> None:
    play.write("own.py", NO_DESTROY)
    done = play("run", play.job({"source": ".", "command": ["python", "own.py"]}), "-i", LOCAL)
    verdict = play.document()["verdict"]
    assert verdict["rank"] == 1, done.err
    if done.code == 7:
        pytest.skip("this torch ended without an abort: there is nothing to explain")
    assert done.code == 134, done.err
    assert "signal 6 (SIGABRT)" in verdict["message"]
    assert "destroy_process_group()" in verdict["hint"]
    assert "destroy_process_group()" in done.err


def test_torchs_flight_recorder_names_the_rank_that_never_came(play: Play) -> None:
    """In place of root the dumps are read by nobody, who may not execute a Python in root's home."""
    play.write("own.py", NEVER_ENTERED)
    own = {}
    if os.geteuid() == 0:
        own = {"PYTHONPATH": next(path for path in sys.path if path.endswith("site-packages"))}
    python = "/usr/bin/python3" if own else sys.executable
    if own and not Path(f"{python}.{sys.version_info.minor}").exists():
        pytest.skip(f"torch is installed for another Python than {python}")
    if closed := [path for path in Path(own.get("PYTHONPATH", "/")).parents if not path.stat().st_mode & stat.S_IXOTH]:
        pytest.skip(f"{closed[0]} is closed to nobody, the user who reads the dumps")
    job = play.job({"source": ".", "command": [python, "own.py"], "env": {"TORCH_FR_BUFFER_SIZE": "2000", **own}})
    done = play("run", job, "-i", LOCAL, "-e", f"ddp_python={python}")
    assert done.code == 1, done.err
    report = (play.newest() / "evidence" / "flight-recorder.txt").read_text()
    message = play.document()["verdict"]["message"]
    assert message.endswith("; flight recorder: rank 1 on localhost never entered all_gather 4"), report
    assert message in done.err
    assert play.left_on_host() == []
