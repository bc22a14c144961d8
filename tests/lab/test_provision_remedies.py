"""Remedies of provisioning without the internet, of NFS and of disks: the message names the cause on both hosts.

What it says is done, and the next provisioning gets past it.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from .conftest import Lab, bare_lab
from .file_server import serving_files
from .first_hour import wheel_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOSTS = ("h1", "h2")
NOWHERE = "http://127.0.0.1:9"
PIP = {"python_env_packages": ["six==1.17.0"], "python_env_verify_imports": ["six"]}
ENGINE = {"docker_engine_source": "distribution"}
BASE = {"base_os_time_sync": "none"}
# Parts of it that stay are the site's, and the role does not replace them unasked.
NO_ENGINE = (
    "apt-mark unhold docker.io >/dev/null 2>&1; apt-get purge -y -qq docker.io containerd runc >/dev/null 2>&1; true"
)
MISSING = "dpkg --purge numactl ethtool >/dev/null 2>&1; "
ARCHIVES = "/var/cache/apt/archives"
# The kernel of a lab has no NFS, which the role finds before it asks the server.
KERNEL = {"__nfs_client_kernel": True, "__nfs_client_to_install": [], "nfs_client_server_timeout_s": 3}
LISTENER = "import socket,time; s=socket.create_server(('', 2049)); time.sleep(600)"


def mount(**changes: str) -> dict[str, Any]:
    """The variable of one mount."""
    return {"nfs_client_mounts": [{"server": "h2", "path": "/srv/data", "mountpoint": "/mnt/data", **changes}]}


@dataclass(frozen=True)
class Case:
    """`ill` is done by root on both hosts. `again`: the variables as the remedy corrects them, or `mend` on both hosts.

    `next_cause`: the next failure of a lab's hosts, where they cannot get further.
    """

    role: str
    says: str
    remedy: str
    variables: dict[str, Any] = field(default_factory=dict)
    ill: str = ""
    mend: str = ""
    again: dict[str, Any] | None = None
    next_cause: str = ""
    hosts: tuple[str, ...] = HOSTS
    well: str = ""


CASES = {
    "the engine's key from a server without a name": Case(
        "docker_engine",
        "Name or service not known",
        "the host cannot resolve mirror.invalid: set ddp_mirror_url, or docker_engine_source: distribution",
        {"ddp_mirror_url": "http://mirror.invalid"},
        again=ENGINE,
    ),
    "the engine's key from a server that is down": Case(
        "docker_engine",
        "Connection refused",
        "the host cannot reach 127.0.0.1: set ddp_mirror_url, or docker_engine_source: distribution",
        {"ddp_mirror_url": NOWHERE},
        ill=NO_ENGINE,
        again=ENGINE,
    ),
    "the host's package sources": Case(
        "base_os",
        "127.0.0.1",
        "the host cannot reach 127.0.0.1: point the host's own package sources at a mirror",
        BASE,
        ill=f"{MISSING} mv /etc/apt /etc/apt.kept; cp -r /etc/apt.kept /etc/apt;"
        " find /etc/apt/sources.list* -type f -delete;"
        f" echo 'deb {NOWHERE}/debian stable main' > /etc/apt/sources.list",
        mend="rm -rf /etc/apt; mv /etc/apt.kept /etc/apt",
        well="test ! -e /etc/apt.kept || { rm -rf /etc/apt; mv /etc/apt.kept /etc/apt; }",
    ),
    "a full disk under apt": Case(
        "base_os",
        f"enough free space in {ARCHIVES}",
        "free disk space: df -h on the host shows it",
        BASE,
        ill=f"{MISSING} rm -rf {ARCHIVES}; mkdir -p {ARCHIVES}; mount -t tmpfs -o size=64k tmpfs {ARCHIVES}",
        mend=f"umount {ARCHIVES}",
        well=f"umount {ARCHIVES}",
    ),
    "an index of pip that is down": Case(
        "python_env",
        "Connection refused",
        "the host cannot reach its package source: set python_env_index_url, or python_env_source: wheelhouse",
        {**PIP, "python_env_index_url": f"{NOWHERE}/simple"},
        again={**PIP, "index": "of the test"},
    ),
    "a package that the index lacks": Case(
        "python_env",
        "No matching distribution found for sixx==1.17.0",
        "correct python_env_packages, or use an index that has it (python_env_index_url)",
        {**PIP, "python_env_packages": ["sixx==1.17.0"], "index": "of the test", "python_env_path": "/opt/other"},
        again={**PIP, "index": "of the test", "python_env_path": "/opt/other"},
    ),
    "a kernel without NFS": Case(
        "nfs_client",
        "its kernel has no NFS client (module nfsv4)",
        "install the distribution's own kernel on it, or remove it from the mounts",
        mount(),
        again={"nfs_client_mounts": []},
        hosts=("h1",),
    ),
    "an NFS server without a name": Case(
        "nfs_client",
        "servers whose name does not resolve there: nobody.invalid",
        "correct nfs_client_mounts as the message says",
        mount(server="nobody.invalid"),
        again=mount(),
        next_cause="has no NFS client",
        hosts=("h1",),
    ),
    "a mount point with files": Case(
        "nfs_client",
        "mount points that are not empty: /etc",
        "correct nfs_client_mounts as the message says",
        mount(mountpoint="/etc"),
        again=mount(),
        next_cause="has no NFS client",
        hosts=("h1",),
    ),
    "an NFS server that is down": Case(
        "nfs_client",
        "h1 gets no answer from h2 port 2049",
        "run systemctl status nfs-server on the server",
        {**KERNEL, **mount()},
        mend=f'systemd-run --quiet --collect --unit=listener python3 -c "{LISTENER}"',
        next_cause="mount",
        hosts=("h1",),
        well="systemctl stop listener",
    ),
}


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    with bare_lab(lab_home, "remedies", 2) as made:
        yield made


@pytest.fixture(scope="module")
def index(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Variables for an index of packages that the hosts reach."""
    with wheel_index(lab, tmp_path_factory.mktemp("index"), ["six==1.17.0"]) as settings:
        yield yaml.safe_load(settings)


def site(lab: Lab) -> str:
    """An inventory that gives the hosts a Python environment, in addition to that of the lab."""
    path = lab.home / "python_env.json"
    path.write_text(json.dumps({"python_env": {"children": {"ranks": None}}}))
    return str(path)


def provision(lab: Lab, role: str, variables: dict[str, Any], hosts: tuple[str, ...] = HOSTS) -> list[dict[str, Any]]:
    """The cells of one role."""
    words = [
        "provision",
        "-i",
        str(lab.inventory),
        "-i",
        site(lab),
        "--json",
        "--no-check",
        "--tags",
        role,
        "--limit",
        ",".join(hosts),
    ]
    done = lab.play(*words, "-e", json.dumps(variables), timeout_s=600)
    assert done.stdout, done.stderr
    return [dict(cell) for cell in json.loads(done.stdout)["cells"] if cell["role"] == role]


def completed(variables: dict[str, Any], index: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in variables.items() if name != "index"}
    return given | index if "index" in variables else given


@pytest.mark.parametrize("name", CASES)
def test_what_the_message_says_gets_past_the_failure(lab: Lab, index: dict[str, Any], name: str) -> None:
    case = CASES[name]
    try:
        on_each(lab, case.ill)
        failed = provision(lab, case.role, completed(case.variables, index), case.hosts)
        assert {cell["host"] for cell in failed} == set(case.hosts)
        for cell in failed:
            assert cell["status"] == "failed", cell
            assert case.says in cell["message"], cell
            assert case.remedy in cell["remedy"], cell
        on_each(lab, case.mend)
        after = case.variables if case.again is None else case.again
        mended = provision(lab, case.role, completed(after, index), case.hosts)
    finally:
        on_each(lab, f"({case.well or 'true'}) >/dev/null 2>&1; true")
    for cell in mended:
        message = cell.get("message", "")
        assert case.says not in message, cell
        if case.next_cause:
            assert case.next_cause in message, cell
        else:
            assert cell["status"] in ("changed", "ok", "skipped"), cell


def on_each(lab: Lab, script: str) -> None:
    for host in HOSTS if script else ():
        lab.on(host, script, user="root")


def test_a_mirror_that_signs_with_a_key_of_its_own(lab: Lab, tmp_path: Path) -> None:
    """The message has the fingerprint that the variable needs. The files that the mirror lacks are the next failure."""
    gpg = ["gpg", "--batch", "--homedir", str(tmp_path / "gpg")]
    (tmp_path / "gpg").mkdir(mode=0o700)
    make = ["--passphrase", "", "--quick-generate-key", "mirror@site.example", "ed25519", "sign"]
    subprocess.run([*gpg, *make], check=True, capture_output=True)
    folder = tmp_path / "files/download.docker.com/linux/debian"
    folder.mkdir(parents=True)
    key = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout
    subprocess.run(["gpgconf", "--homedir", str(tmp_path / "gpg"), "--kill", "all"], check=True)
    (folder / "gpg").write_bytes(key)
    on_each(lab, NO_ENGINE)
    with serving_files(lab, tmp_path / "files") as (address, port):
        variables: dict[str, Any] = {"ddp_mirror_url": f"http://{address}:{port}", "docker_engine_replace": True}
        cells = provision(lab, "docker_engine", variables)
        for cell in cells:
            assert "has the fingerprint" in cell["message"], cell
            assert "docker_engine_repo_key_fingerprints" in cell["message"] + cell.get("remedy", ""), cell
        found = cells[0]["message"].split("has the fingerprint ")[1].split(",")[0]
        for cell in provision(lab, "docker_engine", {**variables, "docker_engine_repo_key_fingerprints": [found]}):
            assert "has the fingerprint" not in cell.get("message", ""), cell
            assert "lacks a file that the message names" in cell.get("remedy", ""), cell
