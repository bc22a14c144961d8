"""A controller with Debian 13's own Python and the newest ansible-core, for hosts of two Debian releases."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from .conftest import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(3000)

OURS = [(host, role) for host in ("new", "old") for role in ("base_os", "docker_engine")]
ROOT = Path(__file__).resolve().parents[2]
TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")  # the package index may have a certificate of the site
INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive PIP_CERT=/opt/ca-certificates.crt && "
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv openssh-client >/dev/null && "
    "python3 -m venv /opt/play && "
    "/opt/play/bin/pip install -q --disable-pip-version-check -c /opt/constraints.txt /opt/*.whl 2>&1"
)
JOB = """
- hosts: ranks
  gather_facts: false
  roles:
    - role: ddp.play.ddp_job
      vars:
        ddp_job_runtime: process
        ddp_job_command: sh -c 'echo rank $RANK of $WORLD_SIZE on Debian $(cut -d. -f1 /etc/debian_version)'
"""


class Controller:
    """The first host of the lab of Debian 13, from which hosts of both labs are reached."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def __call__(self, command: str, *, code: int = 0, timeout_s: float = 600) -> str:
        """Output of a command of root; it must end with this code."""
        words = ["docker", "exec", f"ddp-play-{self.lab.name}-h1", "bash", "-c", f"cd /root && {command}"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=timeout_s)
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        return done.stdout


def host_variables(lab: Lab, host: str) -> dict[str, Any]:
    ranks = yaml.safe_load(lab.inventory.read_text())["all"]["children"]["ranks"]
    return {**ranks["vars"], **ranks["hosts"][host], "ddp_slots": 1, "ddp_shared_dir": ""}


def at_address(variables: dict[str, Any], address: str) -> dict[str, Any]:
    """The variables of a host for another address of it; known_hosts has the first one."""
    alias = f" -o HostKeyAlias={variables['ansible_host']}"
    common = variables["ansible_ssh_common_args"] + alias
    return {**variables, "ansible_host": address, "ansible_ssh_common_args": common}


@contextmanager
def second_network(trixie: Lab, bookworm: Lab) -> Iterator[str]:
    """The address of the older host in the network of the newer ones, which it joins."""
    network, container = f"ddp-play-{trixie.name}-0-fast", f"ddp-play-{bookworm.name}-h1"
    subprocess.run(["docker", "network", "connect", network, container], check=True)
    found = subprocess.run(["docker", "inspect", container], check=True, capture_output=True, text=True)
    try:
        yield str(json.loads(found.stdout)[0]["NetworkSettings"]["Networks"][network]["IPAddress"])
    finally:
        subprocess.run(["docker", "network", "disconnect", "--force", network, container], check=False)


def installed(trixie: Lab, bookworm: Lab, folder: Path) -> Controller:
    """The newer lab's first host with the wheel, the keys of both labs and the files of the tests."""
    run, labs = Controller(trixie), trixie.home / "lab"
    for lab in (trixie, bookworm):
        trixie.put("h1", labs / lab.name, "/opt/")  # docker cp does not write to the tmpfs on /tmp
        run(f"mkdir -p {labs} && mv /opt/{lab.name} {labs}")
    for source in (*folder.glob("*.whl"), ROOT / "constraints.txt", TRUSTED):
        trixie.put("h1", source, "/opt/")
    for name in ("hosts.json", "job.yml"):
        trixie.put("h1", folder / name, "/root/")
    run(f"chown -R root: {trixie.home} && {INSTALL}", timeout_s=1800)  # 40,000 files
    return run


@pytest.fixture(scope="module")
def controller(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT)], check=True)
    with (
        lab_of(lab_home, "newer", "--hosts", "2", "--distro", "trixie") as trixie,
        lab_of(lab_home, "older", "--hosts", "1") as bookworm,
        second_network(trixie, bookworm) as address,
    ):
        hosts = {"new": host_variables(trixie, "h2"), "old": at_address(host_variables(bookworm, "h1"), address)}
        (folder / "hosts.json").write_text(json.dumps({"ranks": {"hosts": hosts}}))
        (folder / "job.yml").write_text(JOB)
        yield installed(trixie, bookworm, folder)


def play(controller: Controller, words: str) -> str:
    return controller(f"/opt/play/bin/ddp-play {words} -i hosts.json")


def report_of(controller: Controller, verb: str) -> dict[str, Any]:
    return dict(json.loads(play(controller, f"{verb} --tags base_os,docker_engine --json")))


def statuses(report: dict[str, Any]) -> dict[tuple[str, str], str]:
    found = {(cell["host"], cell["role"]): cell["status"] for cell in report["cells"]}
    return {cell: found[cell] for cell in OURS}


def test_it_is_the_newest_series(controller: Controller) -> None:
    version = controller("/opt/play/bin/ansible --version")
    assert version.startswith("ansible [core 2.21."), version


def test_a_second_provisioning_changes_nothing(controller: Controller) -> None:
    """Its roles are followed in one process and have no task of their own, as those of verify."""
    first = statuses(report_of(controller, "provision"))
    assert set(first.values()) <= {"changed", "ok"}, first
    assert first["new", "base_os"] == first["old", "base_os"] == "changed"
    for verb in ("provision", "verify"):
        report = report_of(controller, verb)
        assert (statuses(report), report["num_tasks"]) == (dict.fromkeys(OURS, "ok"), 0), verb


def test_a_job_on_hosts_of_both_releases(controller: Controller) -> None:
    out = play(controller, "run job.yml --name both")
    assert "rank 0 of 2 on Debian 1" in out
    logs = [controller(f"/opt/play/bin/ddp-play logs both --rank {rank}") for rank in (0, 1)]
    assert {line.split()[-1] for line in logs} == {"12", "13"}
