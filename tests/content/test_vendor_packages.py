"""Package names, repositories and keys of roles equal the vendors' (tests/roles_gpu/vendor_packages.yml)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.content.test_platforms import ROOT, Role
from tests.roles_gpu import vendor_data

SYSTEMS = {
    "Rocky 9": "rocky-9",
    "AlmaLinux 10": "almalinux-10",
    "Ubuntu 22.04": "ubuntu-22.04",
    "Ubuntu 24.04": "ubuntu-24.04",
}
KEYS = {row["url"] for row in vendor_data.load()["keys"]}
URLS = {row["url"] for row in vendor_data.load()["repositories"].values()}


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


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_of_nvidia_driver(system: str) -> None:
    for source, branch, flavour in itertools.product(
        ("vendor", "distribution"), ("580", "595"), ("open", "proprietary")
    ):
        if source == "distribution" and (not system.startswith("Ubuntu") or branch == "595"):
            continue
        role = role_on("nvidia_driver", system, source=source, branch=branch, flavour=flavour)
        names = role["__nvidia_driver_main_packages + __nvidia_driver_build_packages"]
        for what in ("persistenced", "fabric"):
            names += role[f"__nvidia_driver_{what}_packages[__nvidia_driver_naming]"]
        assert bare(names, system) - vendor_data.names(SYSTEMS[system]) == set(), (source, branch, flavour)


@pytest.mark.parametrize("system", SYSTEMS)
def test_repository_and_key_of_nvidia_driver(system: str) -> None:
    role = role_on("nvidia_driver", system)
    assert role["__nvidia_driver_url"] in URLS
    assert role["__nvidia_driver_key_url"] in KEYS


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_repository_and_key_of_nvidia_container_toolkit(system: str) -> None:
    role = role_on("nvidia_container_toolkit", system)
    assert set(role["__nvidia_container_toolkit_packages"]) <= vendor_data.names(SYSTEMS[system])
    assert role["__nvidia_container_toolkit_url"] in URLS
    assert role["__nvidia_container_toolkit_key_url"] in KEYS


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_and_key_of_docker_engine(system: str) -> None:
    role = role_on("docker_engine", system)
    assert set(role["__docker_engine_packages"]) <= vendor_data.names(SYSTEMS[system])
    assert role["__docker_engine_key_url"] in KEYS


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_of_rdma(system: str) -> None:
    role = role_on("rdma", system, stack="inbox")
    assert set(role["__rdma_packages"]) <= vendor_data.names(SYSTEMS[system])


# In Debian 12, Ubuntu 22.04 and EL the package tzdata has it, with all other zones.
@pytest.mark.parametrize("system", ["Debian 13", "Ubuntu 24.04", "Ubuntu 26.04"])
def test_the_zone_that_chrony_names_is_installed_where_tzdata_lacks_it(system: str) -> None:
    assert "right/UTC" in (ROOT / "roles/base_os/templates/chrony.conf.j2").read_text()
    assert "tzdata-legacy" in Role("base_os", system, time_sync="chrony")["__base_os_packages"]
    assert "tzdata-legacy" not in Role("base_os", "Debian 12", time_sync="chrony")["__base_os_packages"]


@pytest.mark.parametrize("system", ["Debian 12", "Debian 13", "Ubuntu 22.04", "Ubuntu 24.04", "Rocky 9"])
def test_folder_of_doca(system: str) -> None:
    folder = Role("rdma", system, stack="doca")["__rdma_url"].rstrip("/").rsplit("/", 2)[1]
    assert folder in vendor_data.load()["doca_folders"]["folders"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_addresses_on_el_need_nmstate(system: str) -> None:
    links = [{"interface": "ib0", "address": "10.1.0.11/16"}]
    wanted = role_on("rdma", system, stack="inbox", ipoib=links)["__rdma_packages"]
    assert ("nmstate" in wanted) == (system in ("Rocky 9", "AlmaLinux 10"))
    assert set(wanted) <= vendor_data.names(SYSTEMS[system])
    assert "nmstate" not in role_on("rdma", system, stack="inbox")["__rdma_packages"]


def test_every_fact_has_a_public_source() -> None:
    data = vendor_data.load()
    rows = data["keys"] + [row for rows in data["sets"].values() for row in rows]
    assert rows
    assert [row for row in rows if not row["source"].startswith("https://")] == []


def test_modules_of_a_hwe_kernel_on_ubuntu() -> None:
    names = role_on("nvidia_driver", "Ubuntu 22.04", source="distribution")["__nvidia_driver_main_packages"]
    assert "linux-modules-nvidia-580-server-open-generic-hwe-22.04" in names
    assert "linux-modules-nvidia-580-server-open-generic" not in names


@pytest.mark.parametrize("system", ["Ubuntu 22.04", "Ubuntu 24.04"])
def test_video_decoding_is_in_the_compute_profile(system: str) -> None:
    for source, name in {"vendor": "libnvidia-decode-580", "distribution": "libnvidia-decode-580-server"}.items():
        assert name in role_on("nvidia_driver", system, source=source)["__nvidia_driver_main_packages"]


@pytest.mark.parametrize("system", SYSTEMS)
def test_names_of_the_nccl_library(system: str) -> None:
    names = role_on("nccl", system, install_library=True)["__nccl_library_packages"]
    assert set(names) <= vendor_data.names(SYSTEMS[system])
