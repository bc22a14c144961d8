"""Ranks on a machine that has IPv6 addresses only: torchrun's c10d rendezvous and real gloo."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Done, Play
from tests.run.test_ways import HEAD, TAIL, USUAL

pytestmark = [pytest.mark.dist, pytest.mark.runner]

ADDRESS = "2001:db8::1"
NAMESPACE = f"""set -e
mount -t sysfs sysfs /sys
ip link set lo up
ip address flush dev lo
ip address add ::1/128 dev lo
ip link add fab0 type veth peer fab1
ip link set fab1 up
ip link set fab0 up
ip address add {ADDRESS}/64 dev fab0 nodad
exec "$@"
"""


def why_not() -> str:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return "only root may have a network of IPv6 addresses only (unshare, ip)"
    done = subprocess.run(
        ["unshare", "-n", "-m", "sh", "-c", NAMESPACE, "sh", "true"], capture_output=True, check=False
    )
    return "" if done.returncode == 0 else f"no network namespace with IPv6: {done.stderr.decode().strip()}"


def on_ipv6(play: Play, *arguments: str | Path) -> Done:
    """ddp-play in a network namespace that has no IPv4 address at all."""
    command = [str(Path(sys.executable).parent / "ddp-play"), *map(str, arguments)]
    done = subprocess.run(
        ["unshare", "-n", "-m", "sh", "-c", NAMESPACE, "sh", *command],
        cwd=play.cwd, env=play.env(), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


def test_ranks_meet_without_ipv4(play: Play) -> None:
    if reason := why_not():
        pytest.skip(reason)
    play.write("code/own.py", HEAD + "\n".join(USUAL) + TAIL)
    job = play.job(
        {"source": "code", "command": "python own.py", "backend": "gloo", "launcher": "torchrun", "rdzv": "c10d"}
    )
    done = on_ipv6(play, "run", job, "-i", LOCAL, "-e", "ddp_interface=fab0", "--ranks", "all")
    assert done.code == 0, done.err + done.out
    for rank in (0, 1):
        log = (play.newest() / "logs" / f"rank-{rank}.log").read_text()  # torch warns that the address has no name
        assert log.endswith(f"rank {rank} of 2 on {rank} sum 3\n")
    environment = (play.newest() / "env" / "rank-1.env").read_text()
    assert f"MASTER_ADDR={ADDRESS}" in environment
    assert "GLOO_SOCKET_IFNAME=fab0" in environment
