"""The rank image by a registry on one of the hosts: TLS, the loopback way, and what a job says to it."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.images.ssh_access import resolve
from ddp_play.lab import base_image
from ddp_play.lab.base_image_recipe import root_tag
from ddp_play.lab.docker_client import connect
from ddp_play.lab.progress_listener import SilentListener
from ddp_play.lab.spec import Distro
from tests.waiting import wait_until

from .conftest import Lab
from .rank_jobs import SLIM, document, fresh, job


def load(lab: Lab, *options: str) -> tuple[str, str]:
    """The counts and the reference that `image load --method registry` prints; it must succeed."""
    words = ["image", "load", "-i", str(lab.inventory), "--image", SLIM, "--method", "registry", *options]
    done = lab.play(*words, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    counts, reference = done.stdout.splitlines()[:2]
    return counts, reference.split()[0]


def forget(lab: Lab, host: str) -> None:
    """No image is left on the host."""
    lab.on(host, "docker image ls --quiet --no-trunc | sort -u | xargs --no-run-if-empty docker image rm --force")


def pulls(lab: Lab, host: str) -> bool:
    """Whether a client of the host's engine pulls an image."""
    return "docker pull" in lab.on(host, "ps -eo args")


@pytest.fixture
def served(lab3: Lab) -> str:
    """The image's reference in the registry of h1, with TLS, on all hosts."""
    return load(lab3)[1]


def test_one_digest_everywhere_and_nothing_to_do_the_second_time(lab3: Lab, served: str) -> None:
    assert re.fullmatch(r"[0-9.]+:5000/ddp-play-rank@sha256:[0-9a-f]{64}", served)
    played = sorted((lab3.home / "provision").iterdir())
    counts, again = load(lab3)
    assert "pulled by 0 hosts, 3 hosts already had it" in counts
    assert again == served
    assert sorted((lab3.home / "provision").iterdir()) == played
    listed = lab3.play("image", "list", "-i", str(lab3.inventory), "--image", SLIM)
    assert listed.returncode == 0
    assert listed.stdout.count(served[:-52]) == 3


def test_a_job_pulls_from_the_registry_and_only_with_the_authority(lab3: Lab, served: str, tmp_path: Path) -> None:
    for host in ("h2", "h3"):
        forget(lab3, host)
    trust = "/etc/docker/certs.d"
    lab3.on("h3", f"mv {trust} {trust}.away", user="root")
    try:
        assert "certificate" in lab3.on("h3", f"docker pull {served} 2>&1 || true")
    finally:
        lab3.on("h3", f"mv {trust}.away {trust}", user="root")
    name = fresh("pulled")
    playbook = job(tmp_path, {"image": served, "command": ["python3", "-c", "print('from the registry')"]})
    done = lab3.play("run", playbook, "-i", str(lab3.inventory), "--name", name)
    assert done.returncode == 0, done.stderr
    logs = [lab3.home / "runs" / name / "logs" / f"rank-{rank}.log" for rank in range(4)]
    assert [log.read_text() for log in logs] == ["from the registry\n"] * 4
    assert "pulled by 2 hosts, 1 host already had it" in load(lab3)[0]


@pytest.fixture
def slow_pulls(lab3: Lab, served: str) -> Iterator[str]:
    """h2 and h3 pull the image from h1 at 2 Mb/s, and neither has it; in the end h3 is not paused."""
    for host in ("h2", "h3"):
        forget(lab3, host)
    lab3.on("h1", "tc qdisc add dev eth0 root tbf rate 2mbit burst 32kbit latency 400ms", user="root")
    try:
        yield served
    finally:
        subprocess.run(["docker", "unpause", f"ddp-play-{lab3.name}-h3"], capture_output=True, check=False)
        lab3.on("h1", "tc qdisc del dev eth0 root", user="root")


@pytest.mark.long
def test_a_host_that_freezes_while_it_pulls_is_named_and_the_others_leave_off(
    lab3: Lab, slow_pulls: str, tmp_path: Path
) -> None:
    """Its kernel still answers TCP, so the run used to wait for it as long as a pull may take."""
    name = fresh("frozen")
    playbook = job(tmp_path, {"image": slow_pulls, "command": ["true"]})
    begun = lab3.play("run", playbook, "-i", str(lab3.inventory), "-l", "h2,h3", "--name", name, "-d")
    assert begun.returncode == 0, begun.stderr
    for host in ("h2", "h3"):
        wait_until(partial(pulls, lab3, host), timeout_s=60)
    subprocess.run(["docker", "pause", f"ddp-play-{lab3.name}-h3"], check=True, capture_output=True)
    began = time.monotonic()
    ended = lab3.play("attach", name, timeout_s=300)
    assert time.monotonic() - began < 150  # 60 s of silence, and at most as long for the cleanup
    assert ended.returncode == 69, ended.stdout + ended.stderr
    verdict = document(lab3, name)["verdict"]["message"]
    assert re.search(r"^h3: no answer to prepare, and its last message came 6\d s ago$", verdict, re.MULTILINE), verdict
    assert "h2" not in verdict
    assert not pulls(lab3, "h2")


def test_without_tls_the_hosts_pull_over_their_loopback(lab3: Lab) -> None:
    forget(lab3, "h2")
    counts, reference = load(lab3, "--no-tls")
    assert reference.startswith("127.0.0.1:5000/ddp-play-rank@sha256:")
    assert "0 hosts already had it" in counts
    assert "127.0.0.1:5000" not in lab3.on("h2", "ss -Hltn")
    assert load(lab3)[1].split("@")[1] == reference.split("@")[1]


def listens(port: int) -> bool:
    """Does anything on this machine's loopback?"""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def near(lab3: Lab, served: str) -> Iterator[str]:
    """The same registry on this machine's loopback, where this engine takes it as it is."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    first = resolve(str(lab3.inventory))[0]
    forward = ["-N", "-o", "ExitOnForwardFailure=yes", "-L", f"127.0.0.1:{port}:127.0.0.1:5000"]
    tunnel = subprocess.Popen([first.argv[0], *forward, *first.argv[1:]], stdin=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), timeout_s=30)
        yield f"127.0.0.1:{port}"
    finally:
        tunnel.terminate()
        tunnel.wait(10)


def test_the_labs_base_image_comes_from_a_registry(near: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    known, pulled = root_tag(Distro.BOOKWORM), f"ddp-play-test-root:{os.getpid()}"
    reference = f"{near}/debian:bookworm-slim"
    monkeypatch.setattr(base_image, "root_tag", lambda _: pulled)
    with pytest.raises(HostNotReady, match=f"{near}/nothing:1 cannot be pulled"):
        base_image.ensure_root_image(client, Distro.BOOKWORM, progress=SilentListener(), base=f"{near}/nothing:1")
    client.images.get(known).tag(reference)
    try:
        assert '"error"' not in str(client.images.push(reference))
        client.images.remove(reference)
        base_image.ensure_root_image(client, Distro.BOOKWORM, progress=SilentListener(), base=reference)
        assert client.images.get(pulled).attrs["RootFS"] == client.images.get(known).attrs["RootFS"]
    finally:
        for name in (reference, pulled):
            if base_image.has_image(client, name):
                client.images.remove(name)
        client.close()
