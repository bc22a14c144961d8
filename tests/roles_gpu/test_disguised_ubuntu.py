"""Roles with real apt and dpkg on hosts disguised as Ubuntu, with packages as Ubuntu and the vendors publish them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.conftest import engine_or_skip
from tests.roles_gpu import disguise, disguise_ubuntu, mirrors
from tests.roles_gpu.hosts import Host
from tests.roles_gpu.test_disguised_el import GPUS, HARDWARE, NEWEST_580, image

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

PLATFORMS = os.environ.get("ROLES_GPU_UBUNTU", "ubuntu-22.04 ubuntu-24.04").split()
ROLES: dict[str, list[dict[str, Any]]] = {
    "docker_engine": [{"docker_engine_version": "29.1.3"}, {"docker_engine_version": "29.2.1"}],
    "nvidia_container_toolkit": [
        {"nvidia_container_toolkit_version": "1.20.0"},
        {"nvidia_container_toolkit_version": "1.19.1"},
    ],
    "nvidia_driver": [{"nvidia_driver_version": "580.105.08"}, {"nvidia_driver_version": NEWEST_580}],
}
PACKAGES = {
    "docker_engine": dict.fromkeys(("docker-ce", "docker-ce-cli"), ("29.1.3", "29.2.1")),
    "nvidia_container_toolkit": dict.fromkeys(
        ("nvidia-container-toolkit", "libnvidia-container1"), ("1.20.0", "1.19.1")
    ),
    # The archive has these names too, in a higher version.
    "nvidia_driver": dict.fromkeys(
        ("libnvidia-compute-580", "nvidia-utils-580", "nvidia-dkms-580-open"), ("580.105.08", NEWEST_580)
    ),
}
INSTALLED = "dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'"


@pytest.fixture(scope="module", params=PLATFORMS)
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    engine_or_skip()
    created = Host(f"rg-{request.param}-{os.getpid()}", image())
    try:
        disguise_ubuntu.disguise_host(created, request.param)
        disguise.start_vendors(created)
        created.site = mirrors.trusted(created.sh(f"cat {disguise_ubuntu.KEY}"))
        created.show(GPUS)
        yield created
    finally:
        created.remove()


def versions(host: Host) -> dict[str, str]:
    """Installed packages with their upstream version."""
    rows = [line.split() for line in host.sh(INSTALLED).splitlines() if line.startswith("installed ")]
    return {name: version.rpartition(":")[2].partition("-")[0] for _, name, version in rows}


@pytest.mark.parametrize("role", ROLES)
def test_check_install_again_change_and_remove(host: Host, role: str) -> None:
    """The second run changes nothing, also while no vendor can be reached; holds follow the version."""
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
        assert set(expected) <= set(host.sh("apt-mark showhold").split())
        disguise.stop_vendors(host)
        again = host.play(role, HARDWARE | wanted)
        disguise.start_vendors(host)
        assert (again.rc, again.changed) == (0, 0), again.text
    gone = host.play(role, HARDWARE | other, tasks_from="remove")
    assert gone.rc == 0, gone.text
    assert not set(PACKAGES[role]) & set(versions(host))
    assert not set(PACKAGES[role]) & set(host.sh("apt-mark showhold").split())


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


def test_modules_that_ubuntu_signs_follow_the_metapackage_of_the_running_kernel(host: Host) -> None:
    """22.04 runs its HWE kernel here; with the other metapackage the next kernel would come without a driver."""
    hwe = "-hwe-22.04" if "22.04" in host.sh("cat /etc/os-release") else ""
    wanted = HARDWARE | {"nvidia_driver_source": "distribution", "nvidia_driver_verify": False}
    outcome = host.play("nvidia_driver", wanted)
    assert outcome.rc == 0, outcome.text
    names = {f"linux-modules-nvidia-580-server-open-generic{hwe}", "nvidia-headless-no-dkms-580-server-open"}
    assert names <= set(versions(host))
    again = host.play("nvidia_driver", wanted)
    assert (again.rc, again.changed) == (0, 0), again.text
    assert host.play("nvidia_driver", wanted, tasks_from="remove").rc == 0
    assert not names & set(versions(host))
