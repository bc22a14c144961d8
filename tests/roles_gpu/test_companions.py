"""Container toolkit, NCCL settings, RDMA and CUDA toolkit on container hosts with the stub repository."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu import mirrors
from tests.roles_gpu.driver_plays import rank_running
from tests.roles_gpu.fixture import Hardware

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.roles_gpu.hosts import Host, Outcome

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

GPUS = Hardware(loaded="580.178.04")
TOOLKIT: dict[str, Any] = {
    "ddp_mirror_url": f"file://{mirrors.GOOD}",
    "__nvidia_container_toolkit_sysfs": "/opt/hardware/sys",
}
NCCL: dict[str, Any] = {
    "nccl_conf": {"NCCL_IB_TC": 106, "NCCL_SOCKET_IFNAME": "=ib0"},
    "__nccl_sysfs": "/opt/hardware/sys",
}
RDMA: dict[str, Any] = {"rdma_expected_hcas": 2, "__rdma_sysfs": "/opt/hardware/sys"}
NOTHING_THERE = [
    ("nvidia_container_toolkit", TOOLKIT, "skipped: nvidia_container_toolkit: no NVIDIA GPU found in sysfs"),
    ("nccl", NCCL, "skipped: nccl: no NVIDIA GPU found in sysfs"),
    ("rdma", {"__rdma_sysfs": "/opt/hardware/sys"}, "skipped: rdma: no RDMA hardware found in sysfs"),
    ("cuda_toolkit", {}, "skipped: cuda_toolkit: cuda_toolkit_install is false"),
]


@pytest.mark.parametrize(("role", "variables", "reason"), NOTHING_THERE)
@pytest.mark.parametrize("tasks_from", ["main", "verify"])
def test_skipped_with_the_reason(
    host: Host, role: str, variables: dict[str, Any], reason: str, tasks_from: str
) -> None:
    host.show(Hardware(gpus=()))
    outcome = host.play(role, variables, tasks_from=tasks_from)
    assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
    assert reason in outcome.text


@pytest.mark.parametrize("tasks_from", ["main", "verify"])
def test_hardware_that_has_gone_is_no_reason_to_skip(host: Host, tasks_from: str) -> None:
    host.show(Hardware(gpus=()))
    outcome = host.play("rdma", RDMA, tasks_from=tasks_from)
    assert outcome.rc != 0
    assert outcome.changed == 0
    assert "rdma_expected_hcas is 2, but no RDMA hardware found in sysfs" in outcome.text


@pytest.mark.parametrize(
    ("role", "variables", "reason"),
    [
        (
            "nvidia_container_toolkit",
            {"nvidia_container_toolkit_source": "distribution"},
            "No supported distribution",
        ),
        (
            "nvidia_container_toolkit",
            {"nvidia_container_toolkit_mirror_url": "https://ops:hunter2@mirror.example.invalid"},
            "has a user name or a password",
        ),
        (
            "nvidia_container_toolkit",
            {"nvidia_container_toolkit_version": "9.9.9"},
            "the version does not exist there",
        ),
        (
            "nvidia_container_toolkit",
            {"nvidia_container_toolkit_mirror_url": f"file://{mirrors.WRONG_KEY}"},
            f"The key from file://{mirrors.WRONG_KEY}/{mirrors.TOOLKIT}/gpgkey has the fingerprint",
        ),
        ("nccl", {"nccl_conf": {"NCCL_IB_GID_INDEX": 3}}, "Invalid argument"),
        ("nccl", {"nccl_conf": {"NCCL_DEBUG": "INFO"}}, "debugging does not belong"),
        ("nccl", {"nccl_conf": {"NCCL_SOCKET_IFNAME": "eth1"}}, 'write "=eth1"'),
        ("nccl", {"nccl_conf": {"UCX_TLS": "rc"}}, "UCX_TLS is not an NCCL variable"),
        ("rdma", {"rdma_stack": "doca"}, "set rdma_source to vendor"),
        (
            "cuda_toolkit",
            {"cuda_toolkit_install": True, "cuda_toolkit_version": "13"},
            "write major and minor",
        ),
    ],
)
def test_refusals(host: Host, role: str, variables: dict[str, Any], reason: str) -> None:
    host.show(Hardware(loaded="580.178.04", hcas=("mlx5_0", "mlx5_1")))
    base = {"nvidia_container_toolkit": TOOLKIT, "nccl": NCCL, "rdma": RDMA}.get(role, {})
    outcome = host.play(role, base | variables)
    assert outcome.rc != 0
    assert reason in outcome.text
    assert "hunter2" not in outcome.text


def converge(host: Host, role: str, variables: dict[str, Any]) -> Outcome:
    """Check mode first, then for real, then again with nothing left to do."""
    dry = host.play(role, variables, "--check")
    assert dry.rc == 0, dry.text
    first = host.play(role, variables)
    assert first.rc == 0, first.text
    second = host.play(role, variables)
    assert (second.rc, second.changed) == (0, 0), second.text
    print(f"{role}: first {first.wall_s:.1f} s, second {second.wall_s:.1f} s, {second.num_tasks} tasks")  # noqa: T201
    return first


def mended(host: Host, role: str, variables: dict[str, Any], drifts: dict[str, str]) -> None:
    """drifts: a change by hand, and what verify says about it. Each is found by verify and mended by provision."""
    for change, reason in drifts.items():
        host.sh(change)
        broken = host.play(role, variables, tasks_from="verify")
        assert (broken.rc != 0, reason in broken.text) == (True, True), (change, broken.text)
        repaired = host.play(role, variables)
        assert (repaired.rc, repaired.changed > 0) == (0, True), (change, repaired.text)
    verified = host.play(role, variables, tasks_from="verify")
    assert (verified.rc, verified.changed) == (0, 0), verified.text


def test_container_toolkit(host: Host) -> None:
    host.show(GPUS)
    assert converge(host, "nvidia_container_toolkit", TOOLKIT).changed > 0
    packages = "dpkg-query -W -f '${Version}\\n' '*nvidia-container*'"
    assert host.sh(packages).split() == ["1.20.0-1"] * 4
    assert len(host.sh("apt-mark showhold").split()) == 4

    host.sh(f"mv {mirrors.STUB} /srv/away")
    offline = host.play("nvidia_container_toolkit", TOOLKIT)
    host.sh(f"mv /srv/away {mirrors.STUB}")
    assert (offline.rc, offline.changed) == (0, 0), offline.text

    older = TOOLKIT | {"nvidia_container_toolkit_version": "1.19.1"}
    assert host.play("nvidia_container_toolkit", older).rc == 0
    assert host.sh(packages).split() == ["1.19.1-1"] * 4
    broken = host.play("nvidia_container_toolkit", TOOLKIT, tasks_from="verify")
    assert broken.rc != 0
    assert "nvidia-container-toolkit, nvidia-container-toolkit-base not at 1.20.0" in broken.text

    repository = "/etc/apt/sources.list.d/ddp-nvidia-container-toolkit.sources"
    drifts = {
        "apt-mark unhold libnvidia-container1": "not on hold: libnvidia-container1",
        "rm /run/cdi/nvidia.yaml": "No CDI specification",
        "systemctl disable --now nvidia-cdi-refresh.path": "nvidia-cdi-refresh.path",
        "rm /etc/apt/keyrings/ddp-nvidia-container-toolkit-*.asc": "is missing",
        f"echo '# by hand' >> {repository}": f"that differ: {repository}",
        "apt-get -y -qq --allow-change-held-packages remove nvidia-container-toolkit": "not at 1.19.1",
    }
    mended(host, "nvidia_container_toolkit", older, drifts)

    assert host.play("nvidia_container_toolkit", older, tasks_from="remove").rc == 0
    assert host.sh(packages, check=False).split() == []


def test_nccl(host: Host) -> None:
    host.show(GPUS)
    assert converge(host, "nccl", NCCL).changed == 1
    assert "NCCL_SOCKET_IFNAME==ib0\n" in host.sh("cat /etc/nccl.conf")
    host.sh("echo NCCL_P2P_DISABLE=1 >> /etc/nccl.conf")
    broken = host.play("nccl", NCCL, tasks_from="verify")
    assert broken.rc != 0
    assert "not wanted NCCL_P2P_DISABLE=1" in broken.text
    drifts = {"rm /etc/nccl.conf": "missing NCCL_IB_TC=106", "chmod 0600 /etc/nccl.conf": "mode 0600, wanted 0644"}
    mended(host, "nccl", NCCL, drifts)
    assert host.play("nccl", NCCL, tasks_from="remove").changed == 1
    assert host.sh("ls /etc/nccl.conf", check=False) == ""


@pytest.mark.parametrize("theirs", ["NCCL_SOCKET_IFNAME=^lo\n", ""])
def test_without_settings_the_nccl_file_of_the_site_stays(host: Host, theirs: str) -> None:
    host.show(GPUS)
    host.sh(f"printf '{theirs}' > /etc/nccl.conf; chmod 0640 /etc/nccl.conf; chown 0:4 /etc/nccl.conf")
    state = "cat /etc/nccl.conf; stat -c '%a %u %g %i %Y' /etc/nccl.conf; ls /etc/nccl.conf*"
    before, unset = host.sh(state), NCCL | {"nccl_conf": {}}
    try:
        for flags, tasks_from in ((["--check"], "main"), ([], "main"), ([], "verify"), ([], "remove")):
            found = host.play("nccl", unset, *flags, tasks_from=tasks_from)
            assert (found.rc, found.changed) == (0, 0), found.text
            assert host.sh(state) == before, (flags, tasks_from)
        assert host.play("nccl", NCCL).changed == 1  # with settings it is replaced, and comes back
        assert host.sh("cat /etc/nccl.conf.ddp-play.orig") == theirs
        assert host.play("nccl", NCCL, tasks_from="remove").changed == 1
        assert host.sh("cat /etc/nccl.conf; stat -c '%a %u %g' /etc/nccl.conf") == f"{theirs}640 0 4\n"
    finally:
        host.sh("rm -f /etc/nccl.conf*")


def test_without_settings_a_missing_nccl_file_is_written(host: Host) -> None:
    host.show(GPUS)
    unset = NCCL | {"nccl_conf": {}}
    assert converge(host, "nccl", unset).changed == 1
    assert host.sh("cat /etc/nccl.conf") == "# Managed by ddp-play (role nccl)\n"
    assert host.play("nccl", unset, tasks_from="remove").changed == 1
    assert host.sh("ls /etc/nccl.conf", check=False) == ""


def test_rdma(host: Host) -> None:
    host.show(Hardware(hcas=("mlx5_0", "mlx5_1")))
    host.sh("apt-get update -qq")  # a check does not update the lists of packages
    assert converge(host, "rdma", RDMA).changed > 0
    assert "memlock unlimited" in host.sh("cat /etc/security/limits.d/60-ddp-rdma.conf")
    limits, modules = "/etc/security/limits.d/60-ddp-rdma.conf", "/etc/modules-load.d/ddp-nvidia-peermem.conf"
    drifts = {
        f"echo by hand >> {limits}": f"{limits} is not as provisioned",
        f"rm {modules}": f"{modules} is not as provisioned",
        "apt-get -y -qq remove perftest": "package perftest is not installed",
    }
    mended(host, "rdma", RDMA | {"rdma_gpudirect": "peermem"}, {f"rm -f {modules}": modules, **drifts})
    host.sh("echo '2: INIT' > /opt/hardware/sys/class/infiniband/mlx5_1/ports/1/state")
    broken = host.play("rdma", RDMA | {"rdma_expected_hcas": 8}, tasks_from="verify")
    assert broken.rc != 0
    assert "2 RDMA devices in sysfs, the inventory expects 8" in broken.text
    assert "mlx5_1 port 1 is INIT, LinkUp (no subnet manager answers)" in broken.text
    host.show(Hardware())  # the adapters are gone by now
    waits_for(host, "rdma", RDMA, device="/dev/infiniband/uverbs0", said="RDMA devices are in use by")
    assert host.play("rdma", RDMA, tasks_from="remove").rc == 0
    assert host.sh(f"ls {limits}; dpkg -l perftest | grep ^ii", check=False) == ""
    with rank_running(host):  # nothing of the role is left, so that nothing waits
        again = host.play("rdma", RDMA, tasks_from="remove")
    assert (again.rc, again.changed, "pending" in again.text) == (0, 0, False), again.text


def waits_for(host: Host, role: str, variables: dict[str, Any], *, device: str, said: str) -> None:
    """A removal changes nothing while a rank runs, or while a process has the device open; --disrupt does not wait."""
    state = "dpkg-query -W | sha256sum; find /etc -type f -exec sha256sum {} + | sort"
    before = host.sh(state)
    with rank_running(host):
        found = [host.play(role, variables, *flags, tasks_from="remove") for flags in (["--check"], [])]
        disrupted = host.play(role, variables | {"ddp_disrupt": True}, "--check", tasks_from="remove")
    with open_device(host, device):
        used = host.play(role, variables, tasks_from="remove")
    for outcome in (*found, used):
        assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
        assert f"skipped: {role}: pending: removal. The host is busy: " in outcome.text
        assert f"or give --disrupt ({role}_touch_busy_hosts)" in outcome.text
    assert all("ranks running: /home/alice/night" in outcome.text for outcome in found)
    assert f"{said} sleep pid " in used.text
    assert host.sh(state) == before
    assert (disrupted.rc, disrupted.changed > 0, "pending" in disrupted.text) == (0, True, False), disrupted.text


@contextmanager
def open_device(host: Host, path: str) -> Iterator[None]:
    """A process of nobody's run with a file open that looks like a device."""
    host.sh(f"mkdir -p {Path(path).parent}; touch {path}")
    host.sh(f"systemd-run -q --unit=holder sh -c 'exec sleep 900 3<{path}'")
    try:
        yield
    finally:
        host.sh(f"systemctl stop holder; rm -f {path}")


def test_cuda_toolkit_from_the_drivers_repository(host: Host) -> None:
    wanted = {"cuda_toolkit_install": True}
    outcome = host.play("cuda_toolkit", wanted)
    assert outcome.rc != 0
    assert "run that role first" in outcome.text
    host.sh("cp /srv/stub/gpgkey /etc/apt/keyrings/stub.asc")
    host.sh(
        "printf 'Types: deb\\nURIs: file:///srv/stub/\\nSuites: /\\nSigned-By: /etc/apt/keyrings/stub.asc\\n'"
        " > /etc/apt/sources.list.d/ddp-nvidia.sources; apt-get update -qq"
    )
    assert converge(host, "cuda_toolkit", wanted).changed > 0
    assert host.play("cuda_toolkit", wanted, tasks_from="verify").rc == 0
    profile = "/etc/profile.d/ddp-cuda.sh"
    mended(host, "cuda_toolkit", wanted, {f"rm {profile}": f"files that are missing: {profile}"})
    host.sh("rm /usr/local/cuda-13.0/bin/nvcc")
    assert host.play("cuda_toolkit", wanted, tasks_from="verify").rc != 0
    waits_for(host, "cuda_toolkit", wanted, device="/dev/nvidia0", said="GPUs are in use by")
    assert host.play("cuda_toolkit", wanted, tasks_from="remove").changed > 0
    assert host.sh(f"ls {profile}; dpkg -l cuda-toolkit-13-0 | grep ^ii", check=False) == ""
