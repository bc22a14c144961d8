"""Package names, repositories and keys of roles equal the vendors' (tests/roles_gpu/vendor_packages.yml)."""

from __future__ import annotations

import datetime
import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import ROLES, read, tasks_in
from tests.content.test_mirrored_addresses import ADDRESS, addresses
from tests.content.test_platforms import ROOT, Role
from tests.content.test_platforms import SYSTEMS as ALL_SYSTEMS
from tests.roles_gpu import vendor_data

if TYPE_CHECKING:
    from pathlib import Path

SYSTEMS = {
    "Rocky 9": "rocky-9",
    "AlmaLinux 10": "almalinux-10",
    "Ubuntu 22.04": "ubuntu-22.04",
    "Ubuntu 24.04": "ubuntu-24.04",
    "Ubuntu 26.04": "ubuntu-26.04",
}
# What a role may install on a host of any kind; names that only a setting adds are tested below.
INSTALLED = {
    "base_os": "__base_os_packages + ['nftables']",
    "cuda_toolkit": "[__cuda_toolkit_package]",
    "docker_engine": "__docker_engine_packages + __docker_engine_confinement_packages",
    "image_distribution": "__image_distribution_platform.packages",
    "monitoring": "__monitoring_packages",
    "nccl": "__nccl_library_packages",
    "nfs_client": "__nfs_client_platform.packages",
    "nfs_server": "__nfs_server_platform.packages",
    "nvidia_container_toolkit": "__nvidia_container_toolkit_packages",
    "nvidia_driver": "__nvidia_driver_all_packages",
    "python_env": "__python_env_platform.packages",
    "rdma": "__rdma_packages",
    "slurm": "__slurm_platform.packages | ddp.play.slurm_of_parts(['controller', 'node', 'accounting'])",
    "scratch": "[{'fstype': 'ext4'}, {'fstype': 'xfs'}] | ddp.play.scratch_packages",
}
INSTALLING = {"ansible.builtin.apt", "ansible.builtin.dnf", "ansible.builtin.package", "ddp.play.recorded_packages"} | {
    "ddp.play.apt_transaction"
}
# NVIDIA's repository for Ubuntu 26.04 began with these.
OF_RELEASE: dict[tuple[str, str], dict[str, Any]] = {
    ("nvidia_driver", "Ubuntu 26.04"): {"branch": "595"},
    ("cuda_toolkit", "Ubuntu 26.04"): {"version": "13.3"},
}
REPOSITORIES = {
    "nvidia_driver": "__nvidia_driver_url",
    "nvidia_container_toolkit": "__nvidia_container_toolkit_url",
    "rdma": "__rdma_url",
    "docker_engine": "__docker_engine_base_url ~ '/' ~ __docker_engine_platform.repo",
}
FINGERPRINT = re.compile(r"\b(?=\d*[A-F])(?:[0-9A-F]{8}|[0-9A-F]{16}|[0-9A-F]{40})\b(?!\.pub)")


def role_on(name: str, system: str, **inputs: Any) -> Role:
    role = Role(name, system, **inputs)
    role.facts["ddp_gpu"] = role.facts["ddp_gpu"] | {
        "kernel": {"running": vendor_data.load()["platforms"][SYSTEMS[system]]["kernel"]}
    }
    return role


def bare(names: list[str], system: str) -> set[str]:
    """Names without the version of the running kernel that follows them in specs of dnf."""
    kernel = vendor_data.load()["platforms"][SYSTEMS[system]]["kernel"]
    return {name.removesuffix(f"-{kernel}") if system.startswith(("Rocky", "Alma")) else name for name in names}


@pytest.mark.parametrize("system", ALL_SYSTEMS)
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_role_trusts_the_key_of_its_repository_and_no_other(name: str, system: str) -> None:
    role = Role(name, system)
    known = vendor_data.fingerprints()
    assert role[f"__{name}_key_fingerprints"] == [known[role[f"__{name}_key_url"]]]
    own = Role(name, system, repo_key_fingerprints=["AAAA BBBB"])
    assert own[f"__{name}_key_fingerprints"] == ["AAAA BBBB"]


@pytest.mark.parametrize("system", ALL_SYSTEMS)
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_has_the_address_of_the_vendor(name: str, system: str) -> None:
    role = Role(name, system)
    address = role[REPOSITORIES[name]]
    if name == "docker_engine" and role.facts["os_family"] == "RedHat":
        address = role["lookup('ansible.builtin.template', 'docker-ce.repo.j2')"].split("baseurl=")[1].split()[0]
    assert address in vendor_data.addresses()


@pytest.mark.parametrize("major", ["9", "10"])
def test_epel_comes_from_its_own_address_on_rhel(major: str) -> None:
    assert Role("nvidia_driver", f"RHEL {major}")["__nvidia_driver_epel"] in vendor_data.addresses()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_address_or_fingerprint_of_a_role_is_missing_here(role: Path) -> None:
    facts = {*vendor_data.addresses(), *vendor_data.fingerprints()}
    named = {found for text in addresses(role) for found in re.findall(rf"{ADDRESS.pattern}[\w./-]*", text)}
    assert {found for found in named if not any(one.startswith(found) for one in facts)} == set()
    text = "\n".join(path.read_text() for path in role.glob("*/*.yml"))
    assert set(FINGERPRINT.findall(text)) <= set(vendor_data.fingerprints().values())


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", INSTALLED)
def test_every_package_of_a_role_is_published(name: str, system: str) -> None:
    role = role_on(name, system, **OF_RELEASE.get((name, system), {}))
    assert set(role[INSTALLED[name]]) - vendor_data.names(SYSTEMS[system]) == set()


def test_every_role_that_installs_packages_is_in_the_table() -> None:
    installing = {
        role.name
        for role in ROLES
        for path in (role / "tasks").glob("*.yml")
        for task in tasks_in(read(path))
        if set(task) & INSTALLING
    }
    assert installing == set(INSTALLED)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name.startswith(("Rocky", "Alma"))])
def test_packages_of_dnfs_own_are_published(system: str) -> None:
    assert {"python3-dnf-plugin-versionlock", "epel-release"} <= vendor_data.names(SYSTEMS[system])


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_of_nvidia_driver(system: str) -> None:
    for source, branch, flavour in itertools.product(
        ("vendor", "distribution"), ("580", "595"), ("open", "proprietary")
    ):
        if source == "distribution" and (not system.startswith("Ubuntu") or branch == "595"):
            continue
        if source == "vendor" and system == "Ubuntu 26.04" and branch == "580":
            continue
        role = role_on("nvidia_driver", system, source=source, branch=branch, flavour=flavour)
        names = role["__nvidia_driver_main_packages + __nvidia_driver_build_packages"]
        for what in ("persistenced", "fabric"):
            names += role[f"__nvidia_driver_{what}_packages[__nvidia_driver_naming]"]
        assert bare(names, system) - vendor_data.names(SYSTEMS[system]) == set(), (source, branch, flavour)


# In Debian 12, Ubuntu 22.04 and EL the package tzdata has it, with all other zones.
@pytest.mark.parametrize("system", ["Debian 13", "Ubuntu 24.04", "Ubuntu 26.04"])
def test_the_zone_that_chrony_names_is_installed_where_tzdata_lacks_it(system: str) -> None:
    assert "right/UTC" in (ROOT / "roles/base_os/templates/chrony.conf.j2").read_text()
    assert "tzdata-legacy" in Role("base_os", system, time_sync="chrony")["__base_os_packages"]
    assert "tzdata-legacy" not in Role("base_os", "Debian 12", time_sync="chrony")["__base_os_packages"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_addresses_on_el_need_nmstate(system: str) -> None:
    links = [{"interface": "ib0", "address": "10.1.0.11/16"}]
    wanted = role_on("rdma", system, stack="inbox", ipoib=links)["__rdma_packages"]
    assert ("nmstate" in wanted) == (system in ("Rocky 9", "AlmaLinux 10"))
    assert set(wanted) <= vendor_data.names(SYSTEMS[system])
    assert "nmstate" not in role_on("rdma", system, stack="inbox")["__rdma_packages"]


def test_every_fact_has_a_public_source_and_a_date() -> None:
    data = vendor_data.load()
    dated = data["keys"] + data["addresses"] + list(data["plain_sets"].values())
    rows = dated + [row for rows in data["sets"].values() for row in rows]
    assert rows
    assert [row for row in rows if not row["source"].startswith("https://")] == []
    assert [row for row in dated if not isinstance(row["date"], datetime.date)] == []
    assert set(data["dates"]) == set(data["sets"])
    assert all(isinstance(date, datetime.date) for date in data["dates"].values())


def test_modules_of_a_hwe_kernel_on_ubuntu() -> None:
    names = role_on("nvidia_driver", "Ubuntu 22.04", source="distribution")["__nvidia_driver_main_packages"]
    assert "linux-modules-nvidia-580-server-open-generic-hwe-22.04" in names
    assert "linux-modules-nvidia-580-server-open-generic" not in names


@pytest.mark.parametrize("system", ["Ubuntu 22.04", "Ubuntu 24.04"])
def test_video_decoding_is_in_the_compute_profile(system: str) -> None:
    for source, name in {"vendor": "libnvidia-decode-580", "distribution": "libnvidia-decode-580-server"}.items():
        assert name in role_on("nvidia_driver", system, source=source)["__nvidia_driver_main_packages"]
