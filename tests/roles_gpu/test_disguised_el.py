"""Roles with real dnf and rpm on hosts disguised as Enterprise Linux, with packages as the vendors publish them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.conftest import COMMAND, engine_or_skip
from tests.roles_gpu import disguise, mirrors, vendor_data
from tests.roles_gpu.fixture import Hardware
from tests.roles_gpu.hosts import Host, docker

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

PLATFORMS = os.environ.get("ROLES_GPU_EL", "rocky-9 almalinux-10").split()
GPUS = Hardware(loaded="580.178.04")
NEWEST_580 = "580.178.04"
HARDWARE = {
    "__nvidia_driver_sysfs": "/opt/hardware/sys",
    "__nvidia_driver_procfs": "/opt/hardware/proc",
    "__nvidia_container_toolkit_sysfs": "/opt/hardware/sys",
    "nvidia_driver_verify_cuda": False,
}
ROLES: dict[str, list[dict[str, Any]]] = {
    "docker_engine": [{"docker_engine_version": "29.1.3"}, {"docker_engine_version": "29.2.1"}],
    "nvidia_container_toolkit": [
        {"nvidia_container_toolkit_version": "1.20.0"},
        {"nvidia_container_toolkit_version": "1.19.1"},
    ],
    "nvidia_driver": [{"nvidia_driver_version": "580.105.08"}, {"nvidia_driver_version": NEWEST_580}],
}
STREAM = "[nvidia-driver]\nname=nvidia-driver\nstream={}\nprofiles=\nstate=enabled\n"
PACKAGES = {
    "docker_engine": {"docker-ce": ("29.1.3", "29.2.1"), "docker-ce-cli": ("29.1.3", "29.2.1")},
    "nvidia_container_toolkit": dict.fromkeys(
        ("nvidia-container-toolkit", "libnvidia-container1"), ("1.20.0", "1.19.1")
    ),
    "nvidia_driver": dict.fromkeys(
        ("nvidia-driver-cuda", "kmod-nvidia-open-dkms", "nvidia-modprobe"), ("580.105.08", NEWEST_580)
    ),
}


def image() -> str:
    """The lab's bare image with dnf and rpm."""
    base = subprocess.run([COMMAND, "lab", "image", "--no-docker"], capture_output=True, text=True, check=True)
    tag = f"ddp-play-disguised:{base.stdout.split()[-1].rpartition(':')[2]}"
    recipe = Path(__file__).with_name("disguised.Dockerfile")
    folder = str(recipe.parent)
    docker("build", "-q", "--build-arg", f"BASE={base.stdout.split()[-1]}", "-t", tag, "-f", str(recipe), folder)
    return tag


@pytest.fixture(scope="module", params=PLATFORMS)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    engine_or_skip()
    created = Host(f"rg-{request.param}-{os.getpid()}", image())
    try:
        disguise.disguise(created, request.param)
        disguise.start_vendors(created)
        created.site = mirrors.trusted(created.sh("cat /root/stub.asc"))
        created.show(GPUS)
        yield created
    finally:
        created.remove()


def versions(host: Host) -> dict[str, str]:
    return dict(line.split() for line in host.sh("rpm -qa --qf '%{NAME} %{VERSION}\\n'").splitlines())


def locked(host: Host) -> str:
    return host.sh("dnf -q versionlock list")


@pytest.mark.parametrize("role", ROLES)
def test_check_install_again_change_and_remove(host: Host, role: str) -> None:
    """No plugin for version locks and no EPEL on the host before; the second run changes nothing."""
    first, other = ROLES[role]
    before = versions(host)
    dry = host.play(role, HARDWARE | first, "--check")
    assert dry.rc == 0, dry.text
    assert versions(host) == before
    for index, wanted in enumerate((first, other)):
        outcome = host.play(role, HARDWARE | wanted)
        assert outcome.rc == 0, outcome.text
        expected = {name: both[index] for name, both in PACKAGES[role].items()}
        assert {name: versions(host)[name] for name in expected} == expected
        locks = locked(host)
        for name, version in expected.items():
            assert [line for line in locks.splitlines() if line.startswith(f"{name}-") and version in line], locks
        disguise.stop_vendors(host)
        again = host.play(role, HARDWARE | wanted)
        disguise.start_vendors(host)
        assert (again.rc, again.changed) == (0, 0), again.text
    gone = host.play(role, HARDWARE | other, tasks_from="remove")
    assert gone.rc == 0, gone.text
    assert not set(PACKAGES[role]) & set(versions(host))
    assert versions(host).keys() == before.keys(), "the plugin for version locks goes too"
    left = host.sh("cat /etc/dnf/plugins/versionlock.list* 2>/dev/null || true")
    assert not any(name in left for name in PACKAGES[role])


@pytest.mark.parametrize("role", ROLES)
def test_a_mirror_is_enough(host: Host, role: str) -> None:
    """No vendor answers, and a directory of the host has the vendors' files by host name and path."""
    wanted = HARDWARE | ROLES[role][0] | {"ddp_mirror_url": f"file://{disguise.VENDORS}"}
    disguise.stop_vendors(host)
    outcome = host.play(role, wanted)
    disguise.start_vendors(host)
    assert outcome.rc == 0, outcome.text
    expected = {name: both[0] for name, both in PACKAGES[role].items()}
    assert {name: versions(host)[name] for name in expected} == expected
    assert host.play(role, wanted, tasks_from="remove").rc == 0


def test_the_running_kernel_stays_the_newest(host: Host) -> None:
    """An unversioned kernel-devel-matched brings the newest kernel, which the next boot starts."""
    installed = host.sh("rpm -q kernel-core").split()
    assert len(installed) == 1, installed


@pytest.mark.parametrize("rival", ["runc", "podman-docker"])
def test_packages_that_the_engine_would_remove_are_named_first(host: Host, rival: str) -> None:
    host.sh(f"dnf -q -y install {rival}")
    try:
        refused = host.play("docker_engine", {"docker_engine_version": "29.1.3"})
        assert refused.rc != 0
        assert f"{rival} would have to be removed for docker-ce" in refused.text
        assert rival in versions(host)
        replaced = host.play("docker_engine", {"docker_engine_version": "29.1.3", "docker_engine_replace": True})
        assert replaced.rc == 0, replaced.text
        assert rival not in versions(host)
        assert "podman" in versions(host)
        assert host.play("docker_engine", {}, tasks_from="remove").rc == 0
    finally:
        host.sh(f"dnf -q -y remove {rival} docker-ce containerd.io", check=False)


def test_a_repository_that_the_site_enabled_stays_enabled(host: Host) -> None:
    """EPEL needs CRB; the role that adds EPEL disables CRB again only if it enabled it."""
    enabled = "grep -h ^enabled /etc/yum.repos.d/el*-crb.repo"
    assert host.sh(enabled) == "enabled=0\n"
    host.sh("sed -i s/^enabled=0/enabled=1/ /etc/yum.repos.d/el*-crb.repo")
    try:
        outcome = host.play("nvidia_driver", HARDWARE)
        assert outcome.rc == 0, outcome.text
        assert host.play("nvidia_driver", HARDWARE, tasks_from="remove").rc == 0
        assert host.sh(enabled) == "enabled=1\n"
    finally:
        host.sh("sed -i s/^enabled=1/enabled=0/ /etc/yum.repos.d/el*-crb.repo")


def texts(host: Host, folder: str) -> dict[str, str]:
    """What is in the files below a directory, with their modes, by path."""
    listed = host.sh(f"mkdir -p {folder}; find {folder} -mindepth 1 -printf '%p %m %y\\n'").splitlines()
    rows = [line.split() for line in sorted(listed)]
    return {path: mode + (host.sh(f"cat {path}") if kind == "f" else "") for path, mode, kind in rows}


@pytest.mark.parametrize("stream", ["", "580-open", "570-dkms"])
def test_the_module_stream_that_the_site_enabled_stays_enabled(host: Host, stream: str) -> None:
    """`dnf module enable` of the site writes the file that the role writes, and with the same text."""
    folder = "/etc/dnf/modules.d"
    path = f"{folder}/nvidia-driver.module"
    if 'VERSION_ID="9' not in host.sh("cat /etc/os-release"):
        pytest.skip("only dnf of EL 9 has module streams")
    if stream:
        host.sh(f"mkdir -p {folder}; printf '{STREAM.format(stream)}' > {path}; chmod 640 {path}")
    try:
        before = texts(host, folder)
        outcome = host.play("nvidia_driver", HARDWARE, tasks_from="remove")
        assert (outcome.rc, outcome.changed) == (0, 0), outcome.text
        assert texts(host, folder) == before, "nothing is of the role yet"
        outcome = host.play("nvidia_driver", HARDWARE)
        assert outcome.rc == 0, outcome.text
        assert host.sh(f"cat {path}") == STREAM.format("580-open")
        outcome = host.play("nvidia_driver", HARDWARE, tasks_from="remove")
        assert outcome.rc == 0, outcome.text
        assert texts(host, folder) == before
        said = f"a module stream that this role did not write: {path}"
        assert (said in outcome.text) is (stream == "580-open")
    finally:
        host.sh(f"rm -f {folder}/nvidia-driver.module*")


def certify(host: Host, name: str, text: str) -> None:
    """Let the site trust a registry."""
    folder = f"/etc/docker/certs.d/{name}"
    host.sh(f"mkdir -p {folder}; printf -- '{text}' > {folder}/ca.crt; chmod 600 {folder}/ca.crt")


def test_certificates_of_registries_that_the_site_has_stay(host: Host) -> None:
    certificates = {f"{name}.example:5000": f"{name}\n" for name in ("same", "other", "new")}
    certify(host, "same.example:5000", "same\n")
    certify(host, "other.example:5000", "of the site\n")
    try:
        before = texts(host, "/etc/docker/certs.d")
        outcome = host.play("docker_engine", {"docker_engine_ca_certs": certificates})
        assert outcome.rc == 0, outcome.text
        given = [host.sh(f"cat /etc/docker/certs.d/{name}/ca.crt") for name in certificates]
        assert given == list(certificates.values())
        again = host.play("docker_engine", {"docker_engine_ca_certs": certificates})
        assert (again.rc, again.changed) == (0, 0), again.text
        outcome = host.play("docker_engine", {"docker_engine_ca_certs": certificates}, tasks_from="remove")
        assert outcome.rc == 0, outcome.text
        assert texts(host, "/etc/docker/certs.d") == before
        said = "certificates that this role did not write: /etc/docker/certs.d/same.example:5000/ca.crt"
        assert said in outcome.text
    finally:
        host.sh("rm -rf /etc/docker/certs.d")


@pytest.mark.parametrize("theirs", ["same", "other", "none"])
def test_the_authority_of_a_registry_that_the_site_trusts_stays(host: Host, tmp_path: Path, theirs: str) -> None:
    registry = {"source": "registry", "registry_host": "another", "registry_address": "10.1.0.11"}
    wanted = {f"image_distribution_{name}": value for name, value in registry.items()}
    wanted |= {"image_distribution_registry_authority_dir": str(tmp_path)}
    trust = "/etc/docker/certs.d/10.1.0.11:5000"
    try:
        assert host.play("image_distribution", wanted, tasks_from=["facts", "authority"]).rc == 0
        assert host.play("image_distribution", wanted, tasks_from="remove").rc == 0
        assert texts(host, "/etc/docker/certs.d") == {}
        authority = (tmp_path / "ca.crt").read_text()
        if theirs != "none":
            certify(host, "10.1.0.11:5000", authority if theirs == "same" else "of the site\n")
        before = texts(host, "/etc/docker/certs.d")
        outcome = host.play("image_distribution", wanted, tasks_from=["facts", "authority"])
        assert outcome.rc == 0, outcome.text
        assert host.sh(f"cat {trust}/ca.crt") == authority
        outcome = host.play("image_distribution", wanted, tasks_from="remove")
        assert outcome.rc == 0, outcome.text
        assert texts(host, "/etc/docker/certs.d") == before
        assert ("certificates that this role did not write" in outcome.text) is (theirs == "same")
    finally:
        host.sh("rm -rf /etc/docker/certs.d")


def test_a_disguise_has_no_plugin_by_default() -> None:
    """What the other tests rely on: version locks are a package of their own."""
    rows = [row for row in vendor_data.load()["sets"]["el-base"] if row["name"] == "python3-dnf-plugin-versionlock"]
    assert len(rows) == 1
