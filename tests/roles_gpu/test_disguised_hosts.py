"""Roles on disguised hosts of every platform: check, install, again, remove; afterwards the host is as before."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab import host_listing
from tests.lab.conftest import engine_or_skip
from tests.roles_gpu import disguise, disguise_ubuntu, mirrors
from tests.roles_gpu.fixture import Hardware
from tests.roles_gpu.hosts import Host
from tests.roles_gpu.test_disguised_el import image

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.lab, pytest.mark.timeout(5400)]

EVERY = "rocky-9 almalinux-10 ubuntu-22.04 ubuntu-24.04 ubuntu-26.04"
PLATFORMS = os.environ.get("ROLES_GPU_HOSTS", EVERY).split()
WHEELS = "/srv/wheels"
LISTING = (
    "import json, host_listing as h; "
    'print(json.dumps({"file": h.files("/etc"), "package": h.packages(), "unit": h.units()}))'
)
READ_AND_INSTALL = ["facts", "read", "install"]
SYSFS = "/opt/hardware/sys"
MOUNT = {"server": "nas.example.invalid", "path": "/export", "mountpoint": "/srv/shared"}
Step = tuple[str, dict[str, Any], "str | list[str]"]
DRIVER = {
    "nvidia_driver_verify_cuda": False,
    "__nvidia_driver_sysfs": SYSFS,
    "__nvidia_driver_procfs": "/opt/hardware/proc",
}
INBOX = {"rdma_expected_hcas": 2, "__rdma_sysfs": SYSFS}
LIBRARY = {"nccl_install_library": True, "nccl_conf": {"NCCL_IB_TC": 106}, "__nccl_sysfs": SYSFS}
# What is installed together, in the order of the play; removed in the opposite order.
STACKS: dict[str, list[Step]] = {
    "gpu": [
        ("rdma", INBOX, "main"),
        ("nvidia_driver", DRIVER, "main"),
        ("nvidia_container_toolkit", {"__nvidia_container_toolkit_sysfs": SYSFS}, "main"),
        ("cuda_toolkit", {"cuda_toolkit_install": True}, "main"),
        ("nccl", LIBRARY, "main"),
    ],
    "doca": [("rdma", INBOX | {"rdma_stack": "doca", "rdma_source": "vendor"}, "main")],
    "host": [
        ("base_os", {}, "main"),
        ("cluster_users", {"cluster_users_accounts": [{"name": "ada", "uid": 4001}]}, "main"),
        (
            "python_env",
            {
                "python_env_source": "wheelhouse",
                "python_env_wheelhouse": WHEELS,
                "python_env_packages": ["standin==1.0"],
                "python_env_verify_imports": ["standin"],
            },
            "main",
        ),
        ("monitoring", {}, "main"),
    ],
    # A container's kernel neither exports nor mounts, and the name of the server does not resolve.
    "nfs_server": [("nfs_server", {}, READ_AND_INSTALL)],
    "nfs_client": [("nfs_client", {"nfs_client_mounts": [MOUNT]}, READ_AND_INSTALL)],
}
# NVIDIA's repository for Ubuntu 26.04 began with these.
OF_PLATFORM = {"ubuntu-26.04": {"nvidia_driver_branch": "595", "cuda_toolkit_version": "13.3"}}
# The new driver's branch that the repository of the platform has.
LOADED = {"ubuntu-26.04": "595.71.05"}


def write_wheel(folder: Path) -> None:
    """standin 1.0, as the smallest wheel."""
    info = "standin-1.0.dist-info"
    files = {
        "standin.py": "",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: standin\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / "standin-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


@pytest.fixture(scope="module", params=PLATFORMS)
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    engine_or_skip()
    platform = request.param
    created = Host(f"rg-all-{platform}-{os.getpid()}", image())
    ubuntu = platform.startswith("ubuntu")
    try:
        (disguise_ubuntu.disguise_host if ubuntu else disguise.disguise)(created, platform)
        disguise.start_vendors(created)
        key = disguise_ubuntu.KEY if ubuntu else "/root/stub.asc"
        created.site = mirrors.trusted(created.sh(f"cat {key}")) | OF_PLATFORM.get(platform, {})
        created.show(Hardware(loaded=LOADED.get(platform, "580.178.04"), hcas=("mlx5_0", "mlx5_1")))
        wheels = tmp_path_factory.mktemp("wheels")
        write_wheel(wheels)
        created.put(wheels, WHEELS)
        created.put(Path(host_listing.__file__), "/srv/host_listing.py")
        yield created
    finally:
        created.remove()


def listing(host: Host) -> dict[str, str]:
    """Files below /etc, packages with holds, and units."""
    found = json.loads(host.sh(f"cd /srv && python3 -B -c '{LISTING}'"))
    return {f"{kind} {name}": row for kind, rows in found.items() for name, row in rows.items()}


def differing(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, str]]:
    rows = {key: (before.get(key, "absent"), after.get(key, "absent")) for key in before | after}
    return {key: row for key, row in rows.items() if row[0] != row[1]}


def check(host: Host, role: str, variables: dict[str, Any], tasks: str | list[str]) -> None:
    """Check mode works and changes nothing."""
    before = listing(host)
    dry = host.play(role, variables, "--check", tasks_from=tasks)
    assert dry.rc == 0, f"{role} {tasks} --check: {dry.text}"
    assert differing(before, listing(host)) == {}, f"{role} {tasks} --check"


def install(host: Host, role: str, variables: dict[str, Any], tasks: str | list[str]) -> None:
    """Check mode changes nothing, an installation works, and a second one changes nothing."""
    check(host, role, variables, tasks)
    first = host.play(role, variables, tasks_from=tasks)
    assert first.rc == 0, f"{role}: {first.text}"
    assert first.changed, f"{role}: nothing changed"
    again = host.play(role, variables, tasks_from=tasks)
    assert (again.rc, again.changed) == (0, 0), f"{role} again: {again.text}"


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_is_installed_once_and_removed_without_a_trace(host: Host, stack: str) -> None:
    """The listing has checksums, owners and modes below /etc, packages with holds, and units."""
    if stack == "host":  # what a site has before role monitoring
        host.sh("! grep -q ID_LIKE=.*rhel /etc/os-release || dnf -q -y install epel-release")
    before = listing(host)
    for role, variables, tasks in STACKS[stack]:
        install(host, role, variables, tasks)
    for role, variables, _ in reversed(STACKS[stack]):
        check(host, role, variables, "remove")
        gone = host.play(role, variables, tasks_from="remove")
        assert gone.rc == 0, f"{role} remove: {gone.text}"
    assert differing(before, listing(host)) == {}


def test_a_directory_of_the_site_is_no_environment_to_remove(host: Host) -> None:
    """Also not if the role has made an environment of it."""
    path = "/opt/site/venv"
    host.sh(f"mkdir -p {path}; echo theirs > {path}/data")
    variables = STACKS["host"][2][1] | {"python_env_path": path}
    try:
        first = host.play("python_env", variables)
        assert first.rc == 0, first.text
        gone = host.play("python_env", variables, tasks_from="remove")
        assert gone.rc == 0, gone.text
        assert f"environment that this role has not created: {path}" in gone.text
        assert host.sh(f"cat {path}/data") == "theirs\n"
    finally:
        host.sh("rm -r /opt/site")


@pytest.mark.parametrize("role", ["docker_engine", "nvidia_driver", "nvidia_container_toolkit", "rdma"])
def test_a_key_that_is_not_the_vendors_is_refused_first(host: Host, role: str) -> None:
    """The stub repositories are signed with a key of the test, which nothing makes the role trust here."""
    variables = {key: value for row in STACKS["gpu"] for key, value in row[1].items()}
    variables |= {"rdma_stack": "doca", "rdma_source": "vendor", f"{role}_repo_key_fingerprints": []}
    before = listing(host)
    refused = host.play(role, variables)
    assert refused.rc != 0
    assert f"set {role}_repo_key_fingerprints" in refused.text
    assert host.site[f"{role}_repo_key_fingerprints"][0] in refused.text
    assert differing(before, listing(host)) == {}
