"""Sick hosts and bad input while provisioning: who is named, what helps, and that nobody else is held up."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

from .conftest import COMMAND, Lab, bare_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = "/etc/security/limits.d/60-ddp-play.conf"
# Something for the package manager to do, also on a host that an earlier test has provisioned.
MISSING = f"dpkg --purge numactl ethtool 2>/dev/null; rm -f {LIMITS};"
HELD = "/run/lock-is-held"
# Holds dpkg's lock as an unattended upgrade would, until it is killed.
HOLD_LOCK = (
    "import fcntl, time; file = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(file, fcntl.LOCK_EX);"
    f" open('{HELD}', 'w').close(); time.sleep(900)"
)
BROKEN_SOURCES = (
    f"{MISSING} cp -r /etc/apt/sources.list* /root; find /etc/apt/sources.list* -type f -delete;"
    " echo 'deb http://127.0.0.1:9/debian stable main' > /etc/apt/sources.list",
    "rm /etc/apt/sources.list; cp -r /root/sources.list* /etc/apt/",
)


@pytest.fixture(scope="module")
def sick(lab_home: Path) -> Iterator[Lab]:
    """Four bare hosts to be made ill."""
    with bare_lab(lab_home, "sick", 4) as lab:
        yield lab


def arguments(lab: Lab, *words: str) -> list[str]:
    return ["provision", "-i", str(lab.inventory), "--json", "-e", "docker_engine_source=distribution", *words]


def provision(lab: Lab, host: str, role: str, *words: str) -> dict[str, Any]:
    """The cell of one role on one host."""
    done = lab.play(*arguments(lab, "--limit", host, "--tags", role, *words), timeout_s=600)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    (cell,) = report["cells"]
    assert (done.returncode == 0) == (cell["status"] not in ("failed", "unreachable")), done.stderr
    return dict(cell)


@contextmanager
def changed(lab: Lab, host: str, ill: str, well: str) -> Iterator[None]:
    """The host is ill in here, and well again afterwards."""
    lab.on(host, ill, user="root")
    try:
        yield
    finally:
        lab.on(host, well, user="root")


@contextmanager
def lock_held(lab: Lab, host: str) -> Iterator[None]:
    """Another package manager is at work on the host."""
    hold = f'{MISSING} systemd-run --quiet --collect --unit=hold-lock python3 -c "{HOLD_LOCK}"'
    with changed(lab, host, hold, f"systemctl stop hold-lock; rm -f {HELD}"):
        wait_until(lambda: lab.on(host, f"test -e {HELD} && echo held || true"), timeout_s=60)
        yield


@contextmanager
def switched_off(lab: Lab, host: str) -> Iterator[None]:
    """The host's address answers nobody."""
    subprocess.run(["docker", "kill", f"ddp-play-{lab.name}-{host}"], check=True, capture_output=True)
    try:
        yield
    finally:
        lab.up("--hosts", "4", "--no-docker")


def test_sick_hosts_hold_up_nobody(sick: Lab) -> None:
    """h1 is well; on h2 another package manager is at work; h3 is switched off; the package sources of h4 are broken.

    h2 is kept waiting until h1 has gone through its role: were hosts to wait for each other, h1 would never get there.
    """
    sick.on("h1", MISSING, user="root")
    command = [COMMAND, *arguments(sick, "--tags", "base_os,rdma", "-e", "base_os_lock_timeout_s=1500")]
    with changed(sick, "h4", *BROKEN_SOURCES), lock_held(sick, "h2"), switched_off(sick, "h3"):
        run = subprocess.Popen(command, env=sick.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_until(
                lambda: sick.on("h1", f"test -e {LIMITS} && echo there || true") or run.poll() is not None,
                timeout_s=800,
            )
            assert run.poll() is None, run.communicate()
            assert sick.on("h2", f"test -e {LIMITS} && echo there || true") == ""
            sick.on("h2", "systemctl stop hold-lock", user="root")
            output, errors = run.communicate(timeout=800)
        finally:
            run.kill()
            run.wait()
    found = {(cell["host"], cell["role"]): cell for cell in json.loads(output)["cells"]}
    assert {key: cell["status"] for key, cell in found.items()} == {
        ("h1", "base_os"): "changed", ("h2", "base_os"): "changed", ("h3", "base_os"): "unreachable",
        ("h4", "base_os"): "failed", ("h1", "rdma"): "skipped", ("h2", "rdma"): "skipped",
        ("h3", "rdma"): "not_run", ("h4", "rdma"): "not_run",
    }  # fmt: skip
    assert re.match(r"check that it is up: ssh (?:.* )?(?:\w+@)?10\.", found["h3", "base_os"]["remedy"])
    assert "the host cannot reach 127.0.0.1" in found["h4", "base_os"]["remedy"]
    assert found["h4", "rdma"]["reason"] == "base_os failed before it"
    assert run.returncode == 1
    assert "h3 (base_os unreachable), h4 (base_os failed)" in errors


def test_a_host_is_well_once_mended(sick: Lab) -> None:
    assert provision(sick, "h4", "base_os")["status"] == "changed"


CASES = [
    pytest.param(
        "sed --in-place=.kept 's/^VERSION_ID=.*/VERSION_ID=\"11\"/' /etc/os-release; mv /etc/debian_version /root;"
        " echo 11.9 > /etc/debian_version",
        "mv /etc/os-release.kept /etc/os-release; mv /root/debian_version /etc",
        "runs Debian 11. Known: Debian 12, Debian 13, Ubuntu 22.04",
        "use one of the systems that the message lists",
        id="unsupported system",
    ),
    pytest.param(
        "cp -p /etc/sudoers.d/ops /root/sudoers; sed --in-place s/NOPASSWD:// /etc/sudoers.d/ops",
        "mv /root/sudoers /etc/sudoers.d/ops",
        "sudo password",
        "give the password with -K, or NOPASSWD",
        id="no sudo password",
    ),
    pytest.param("mv /usr/bin/sudo /root", "mv /root/sudo /usr/bin", "sudo", "install sudo", id="no sudo"),
    pytest.param(
        f"{MISSING} rm -rf /var/cache/apt/archives; mkdir -p /var/cache/apt/archives;"
        " mount -t tmpfs -o size=64k tmpfs /var/cache/apt/archives",
        "umount /var/cache/apt/archives",
        "enough free space in /var/cache/apt/archives",
        "free disk space: df -h on the host",
        id="disk full",
    ),
]


@pytest.mark.parametrize(("ill", "well", "message", "remedy"), CASES)
def test_what_is_wrong_and_what_helps(sick: Lab, ill: str, well: str, message: str, remedy: str) -> None:
    with changed(sick, "h3", ill, well):
        cell = provision(sick, "h3", "base_os")
    assert cell["status"] in ("failed", "unreachable"), cell
    assert message in cell["message"], cell
    assert remedy in cell["remedy"], cell


def test_a_lock_that_is_not_given_up(sick: Lab) -> None:
    with lock_held(sick, "h3"):
        cell = provision(sick, "h3", "base_os", "-e", "base_os_lock_timeout_s=3")
    assert cell["status"] == "failed"
    assert "lock" in cell["message"]
    assert "another package manager runs on the host" in cell["remedy"]
    assert provision(sick, "h3", "base_os")["status"] == "changed"


def mounts(**changes: str) -> str:
    mount = {"server": "h2", "path": "/srv/data", "mountpoint": "/mnt/data", **changes}
    return json.dumps({"nfs_client_mounts": [mount]})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"server": "nobody.invalid"}, "servers whose name does not resolve there: nobody.invalid"),
        ({"server": "h1"}, "mounts from the host itself: /mnt/data"),
        ({"mountpoint": "/etc"}, "mount points that are not empty: /etc"),
    ],
    ids=["no such server", "server is client", "mount point not empty"],
)
def test_mounts_that_cannot_be_meant(sick: Lab, changes: dict[str, str], message: str) -> None:
    cell = provision(sick, "h1", "nfs_client", "-e", mounts(**changes))
    assert cell["status"] == "failed"
    assert message in cell["message"]
    assert cell["remedy"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "killed"])
def test_an_interrupted_run_is_finished_by_the_next(sick: Lab, how: signal.Signals) -> None:
    """In the middle of an installation: dpkg works on while nobody watches, and the next run takes it from there."""
    sick.on(
        "h1",
        "apt-mark unhold docker.io; apt-get purge -y -qq docker.io containerd runc; rm -rf /etc/docker",
        user="root",
    )
    words = [COMMAND, *arguments(sick, "--limit", "h1", "--tags", "docker_engine")]
    run = subprocess.Popen(
        words,
        env=sick.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: sick.on("h1", "pgrep -x dpkg || true") or run.poll() is not None, timeout_s=120)
        assert run.poll() is None
        os.killpg(run.pid, how)
        _, errors = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == (130 if how is signal.SIGINT else -how), errors
    assert provision(sick, "h1", "docker_engine")["status"] == "changed"
    assert provision(sick, "h1", "docker_engine")["status"] == "ok"
    assert sick.on("h1", "docker version --format ok", user="root") == "ok"
