"""Verdicts on real ends: a refused connection that is no lost peer, and an exit code that torch's teardown replaced."""

from __future__ import annotations

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
