"""Connections and datagrams between a listener and its peers, on this machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ddp_play.guard.peer_probe import LIFE_S, Listener, connect_all, path_mtus

HERE = "127.0.0.1"
WORD = "0123456789abcdef" * 2
MANY = 200
# argv: soft and hard limit of open files, and how many this process has open already.
OF_MANY = f"""
import json, os, resource, sys
from ddp_play.guard.peer_probe import Listener, connect_all, path_mtus
soft, hard, taken = map(int, sys.argv[1:])
listener = Listener("{HERE}", [], "{WORD}")
own = {{"address": "{HERE}", "word": "{WORD}", "mtu": 1500, "ports": listener.chosen}}
peers = [{{"name": "h%d" % n, "datagram_port": listener.datagram_port, **own}} for n in range({MANY})]
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(taken)]
connected, mtus = connect_all(peers, "{HERE}", 30.0), path_mtus(peers, "{HERE}", 30.0)
listener.close()
print(json.dumps([connected, mtus, connect_all(peers, "{HERE}", 30.0), resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""


def peer(listener: Listener, **more: Any) -> dict[str, Any]:
    own = {"ports": listener.ports + listener.chosen, "datagram_port": listener.datagram_port}
    return {"name": "h2", "address": HERE, "word": WORD, "mtu": 1500, **own, **more}


def test_all_ports_connect_and_large_packets_arrive() -> None:
    listener = Listener(HERE, [], WORD)
    try:
        assert len(listener.chosen) == 2
        assert connect_all([peer(listener)], HERE, 20.0) == []
        found = path_mtus([peer(listener)], HERE, 20.0)["h2"]
        assert (found["small"], found["large"]) == (True, True)
    finally:
        listener.close()
    refused = connect_all([peer(listener)], HERE, 20.0)
    assert [row["result"] for row in refused] == ["refused", "refused"]


@pytest.mark.parametrize("lost", ["small", "large"])
def test_a_datagram_that_was_lost_is_sent_again(lost: str) -> None:
    """A full buffer loses either of the two; the one that arrived says nothing of the other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as far:
        far.bind((HERE, 0))
        far.settimeout(20.0)

        def answer() -> None:
            seen, left = 0, {16, 1472}
            while left:
                data, sender = far.recvfrom(65536)
                if (len(data) == 16) == (lost == "small"):
                    seen += 1
                    if seen == 1:
                        continue
                left.discard(len(data))
                far.sendto(b"%s %d" % (WORD.encode(), len(data)), sender)

        with ThreadPoolExecutor(1) as pool:
            answered = pool.submit(answer)
            row = {"name": "h2", "address": HERE, "word": WORD, "mtu": 1500, "datagram_port": far.getsockname()[1]}
            found = path_mtus([row], HERE, 20.0)["h2"]
            assert (found["small"], found["large"]) == (True, True)
            answered.result(20.0)


@pytest.mark.parametrize(
    ("soft", "hard", "taken"), [(64, 4096, 0), (64, 64, 0), (4096, 4096, 1100)], ids=["raised", "batches", "numbers"]
)
def test_more_peers_than_files_may_be_open(soft: int, hard: int, taken: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OF_MANY, str(soft), str(hard), str(taken)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    failed, mtus, refused, limits = json.loads(done.stdout)
    assert failed == []
    assert len(mtus) == MANY
    assert all(row["small"] and row["large"] and row["kernel"] for row in mtus.values())
    assert [row["result"] for row in refused] == ["refused"] * 2 * MANY
    assert limits == [soft, hard]


def test_the_ports_are_free_at_once_for_programs_without_reuse_of_addresses() -> None:
    listener = Listener(HERE, [], WORD)
    assert connect_all([peer(listener)], HERE, 20.0) == []
    listener.close()
    for port in listener.chosen:
        with socket.socket() as sock:
            sock.bind((HERE, port))


def test_the_listener_ends_though_another_process_has_inherited_its_pipe() -> None:
    listener = Listener(HERE, [], WORD)
    pid = os.fork()
    if pid == 0:
        try:
            time.sleep(600)
        finally:
            os._exit(0)
    try:
        began = time.monotonic()
        listener.close()
        assert time.monotonic() - began < LIFE_S / 2
        for port in listener.chosen:
            with socket.socket() as sock:
                sock.bind((HERE, port))
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_another_machine_that_answers_is_noticed() -> None:
    listener = Listener(HERE, [], "f" * 32)
    try:
        found = connect_all([peer(listener)], HERE, 20.0)
        assert {row["result"] for row in found} == {"another machine"}
        assert path_mtus([peer(listener)], HERE, 0.3)["h2"]["small"] is False
    finally:
        listener.close()


def test_a_port_that_is_taken_is_told_and_not_tested() -> None:
    with socket.create_server((HERE, 0)) as other:
        port = other.getsockname()[1]
        listener = Listener(HERE, [port], WORD)
        listener.close()
    assert list(listener.taken) == [port]
    assert listener.ports == []


def test_a_listener_that_never_answers_is_a_timeout() -> None:
    with socket.create_server((HERE, 0)) as silent:
        row = {"name": "h2", "address": HERE, "word": WORD, "ports": [silent.getsockname()[1]]}
        assert [found["result"] for found in connect_all([row], HERE, 0.3)] == ["timeout"]


def test_an_address_that_is_not_this_host_cannot_be_the_source() -> None:
    row = {"name": "h2", "address": HERE, "word": WORD, "ports": [9]}
    assert connect_all([row], "203.0.113.1", 1.0)[0]["result"] == "Cannot assign requested address"
    assert connect_all([], HERE, 1.0) == []
