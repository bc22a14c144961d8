"""Every role's table is complete for every supported system: packages, units, paths and repositories resolve.

Most systems are "written" in docs/platforms.md: nobody has run a role there. This is what holds them together.
"""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from ansible._internal._templating._jinja_bits import AnsibleEnvironment
from ansible.errors import AnsibleUndefinedVariable
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = re.compile(r"[a-z0-9][a-zA-Z0-9+._-]+")
SYSTEMS = {
    "Debian 12": ("Debian", "Debian", "12.11", "apt"),
    "Debian 13": ("Debian", "Debian", "13.1", "apt"),
    "Ubuntu 22.04": ("Debian", "Ubuntu", "22.04", "apt"),
    "Ubuntu 24.04": ("Debian", "Ubuntu", "24.04", "apt"),
    "Ubuntu 26.04": ("Debian", "Ubuntu", "26.04", "apt"),
    "RHEL 9": ("RedHat", "RedHat", "9.6", "dnf"),
    "Rocky 9": ("RedHat", "Rocky", "9.6", "dnf"),
    "AlmaLinux 10": ("RedHat", "AlmaLinux", "10.0", "dnf"),
    "RHEL 10": ("RedHat", "RedHat", "10.1", "dnf"),
}
DEB_ONLY = tuple(name for name, row in SYSTEMS.items() if row[0] == "Debian")
UBUNTU = tuple(name for name in SYSTEMS if name.startswith("Ubuntu"))
# What a role has read on the host before it looks at these names.
READ: dict[str, Any] = {
    "ddp_gpu": {
        "kernel": {"running": "6.8.0-60-generic"},
        "gpus": [{"generation": "hopper"}],
        "flavours": ["open", "proprietary"],
        "nvswitches": ["0000:80:00.0"],
        "nvlink5": False,
        "packages": {},
        "num_pci_devices": 9,
    },
    "ddp_rdma": {"hcas": [], "devices": [], "num_pci_devices": 9, "acs_bridges": []},
}


def facts(system: str, architecture: str = "x86_64") -> dict[str, Any]:
    family, distribution, version, manager = SYSTEMS[system]
    return {
        **READ,
        "os_family": family,
        "distribution": distribution,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
        "architecture": architecture,
        "pkg_mgr": manager,
    }


@pytest.fixture(scope="module", autouse=True)
def _templates_are_compiled_once() -> Iterator[None]:
    """Ansible compiles a template anew at each use; here a few hundred are used thousands of times."""
    compiled: dict[str, Any] = {}
    compile_template = AnsibleEnvironment.compile

    def once(environment: AnsibleEnvironment, source: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(source, str) or arguments or options:
            return compile_template(environment, source, *arguments, **options)
        if source not in compiled:
            compiled[source] = compile_template(environment, source)
        return compiled[source]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AnsibleEnvironment, "compile", once)
        yield


@functools.cache
def load(path: Path) -> dict[str, Any]:
    """A file of variables; its strings are templates."""
    return dict(DataLoader().load_from_file(str(path), trusted_as_template=True) or {})


class Role:
    """A role's variables on one system, as its tasks would see them after `hardware` and `facts`."""

    def __init__(self, name: str, system: str, architecture: str = "x86_64", **inputs: Any) -> None:
        self.path = ROOT / "roles" / name
        self.facts = facts(system, architecture)
        self._variables: dict[str, Any] = {"ansible_facts": self.facts, "ansible_search_path": [str(self.path)]}
        for file in ("defaults/main.yml", "vars/main.yml"):
            self._variables |= load(self.path / file)
        self._variables |= {f"{name}_{key}": value for key, value in inputs.items()}

    def __getitem__(self, expression: str) -> Any:
        templar = Templar(loader=DataLoader(), variables=self._variables)
        return templar.evaluate_expression(trust_as_template(expression))


def is_url(text: str) -> bool:
    """A whole https address: no template left in it, no empty part, no double slash."""
    parts = urlsplit(text)
    return parts.scheme == "https" and "." in parts.netloc and "//" not in parts.path and not re.search(r"[{}\s]", text)


def assert_packages(names: list[str]) -> None:
    assert names
    assert [name for name in names if not PACKAGE.fullmatch(name)] == []
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("name", "packages", "units", "paths"),
    [
        ("base_os", "packages", ("chrony_unit",), ("chrony_conf", "chrony_keys", "chrony_drift")),
        ("monitoring", "packages", ("unit",), ("arguments_path",)),
        ("nfs_client", "packages", (), ()),
        ("nfs_server", "packages", ("unit",), ()),
        ("python_env", "packages", (), ()),
    ],
)
def test_roles_with_one_table(
    system: str, name: str, packages: str, units: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    platform = Role(name, system)[f"__{name}_platform"]
    assert_packages(platform[packages])
    assert all(platform[key].endswith(".service") for key in units)
    assert all(platform[key].startswith("/etc/") or platform[key].startswith("/var/") for key in paths)


@pytest.mark.parametrize("role", sorted({path.parents[1].name for path in ROOT.glob("roles/*/vars/main.yml")}))
def test_all_systems_of_a_table_have_the_same_keys(role: str) -> None:
    tables = Role(role, "Debian 12")._variables.get(f"__{role}_platforms", {})
    keys = {frozenset(row) for row in tables.values()} if isinstance(tables, dict) else set()
    assert len(keys) <= 1


def docker_sources() -> Iterator[tuple[str, str]]:
    for system, source in itertools.product(SYSTEMS, ("vendor", "distribution")):
        if source != "distribution" or system in DEB_ONLY:
            yield system, source


@pytest.mark.parametrize(("system", "source"), list(docker_sources()))
def test_docker_engine(system: str, source: str) -> None:
    role = Role("docker_engine", system, source=source)
    assert_packages(role["__docker_engine_packages"])
    assert not set(role["__docker_engine_packages"]) & set(role["__docker_engine_conflicts"])
    assert re.fullmatch(r"\d+\.\d+", role["__docker_engine_platform.engine_floor"])
    if source == "distribution":
        assert role["__docker_engine_repo_text"] == ""
        return
    assert is_url(role["__docker_engine_key_url"])
    text = role["__docker_engine_repo_text"]
    address = re.search(r"(?:URIs:\s*|baseurl=)(\S+)", text)
    assert address
    assert is_url(address[1].replace("$basearch", "x86_64"))
    assert role["__docker_engine_base_url"] in address[1]
    assert "{{" not in text
    assert role["__docker_engine_platform.suite"] in text


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_nvidia_driver(system: str, architecture: str) -> None:
    for source, branch, flavour, profile in itertools.product(
        ("vendor", "distribution"), ("580", "595"), ("open", "proprietary"), ("compute", "full")
    ):
        if source == "distribution" and system not in DEB_ONLY:
            continue
        role = Role(
            "nvidia_driver", system, architecture, source=source, branch=branch, flavour=flavour, profile=profile
        )
        assert_packages(role["__nvidia_driver_main_packages"])
        assert_packages(role["__nvidia_driver_build_packages"])
        persistenced, fabric = (
            f"__nvidia_driver_{what}_packages[__nvidia_driver_naming]" for what in ("persistenced", "fabric")
        )
        assert_packages(role[persistenced])
        # Debian's own driver comes without a fabric manager, and preflight says so.
        assert bool(role[fabric]) == (source == "vendor" or system in UBUNTU)
        assert role["__nvidia_driver_torch_floor"] == 580
    assert is_url(role["__nvidia_driver_url"])
    assert is_url(role["__nvidia_driver_key_url"])
    # one folder a release, so a copied line of another system shows
    folder = system.lower().replace(" ", "").replace(".", "").replace("rocky", "rhel").replace("almalinux", "rhel")
    assert f"/{folder}/{'sbsa' if architecture == 'aarch64' else 'x86_64'}/" in role["__nvidia_driver_url"]
    assert role["__nvidia_driver_package_manager"] == SYSTEMS[system][3]
    assert (role.path / "tasks" / f"packages-{SYSTEMS[system][3]}.yml").is_file()
    assert Path(role["__nvidia_driver_family.initramfs"][0]).is_absolute()
    assert role["__nvidia_driver_url"] in role["__nvidia_driver_repo_files[0].content"]
    paths = {found["path"] for found in role["__nvidia_driver_repo_files + __nvidia_driver_files_wanted"]}
    assert paths <= set(role["__nvidia_driver_own_paths"]), "read.yml reads them and remove.yml removes them"


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name not in DEB_ONLY])
def test_a_distribution_without_a_driver_has_no_packages(system: str) -> None:
    assert Role("nvidia_driver", system)["__nvidia_driver_packages.distribution"] == {}


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_nvidia_container_toolkit(system: str, architecture: str) -> None:
    role = Role("nvidia_container_toolkit", system, architecture)
    assert is_url(role["__nvidia_container_toolkit_url"])
    assert is_url(role["__nvidia_container_toolkit_key_url"])
    manager = role["__nvidia_container_toolkit_package_manager"]
    assert manager == SYSTEMS[system][3]
    assert (role.path / "tasks" / f"packages-{manager}.yml").is_file()
    assert role["__nvidia_container_toolkit_url"] in role["__nvidia_container_toolkit_repo_files[0].content"]
    floors = "__nvidia_container_toolkit_engine_floors"
    row = role[f"{floors} | ddp.play.version_table_row(nvidia_container_toolkit_version, 'toolkit')"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", row["engine"])


@pytest.mark.parametrize("stack", ["inbox", "doca"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_rdma(system: str, stack: str) -> None:
    role = Role("rdma", system, stack=stack)
    assert_packages(role["__rdma_packages"])
    assert is_url(role["__rdma_url"])
    assert is_url(role["__rdma_key_url"])
    assert (role.path / "templates" / role["__rdma_platform.ipoib_template"]).is_file()
    assert role["__rdma_url"] in role["__rdma_repo_files[0].content"]
    assert Path(role["__rdma_ipoib_file"]).is_absolute()


@pytest.mark.parametrize("system", SYSTEMS)
def test_image_distribution(system: str) -> None:
    platform = Role("image_distribution", system)["__image_distribution_platform"]
    assert bool(platform["packages"]) == bool(platform["unit"]) == (system in DEB_ONLY)


@pytest.mark.parametrize(("distribution", "version"), [("Fedora", "42"), ("Debian", "11.9"), ("Ubuntu", "20.04")])
def test_an_unknown_system_has_no_row(distribution: str, version: str) -> None:
    role = Role("base_os", "Debian 12")
    role.facts.update(distribution=distribution, distribution_version=version, distribution_major_version=version[:2])
    assert role["__base_os_os in __base_os_platforms"] is False


def test_the_checks_see_what_is_wrong() -> None:
    assert not is_url("https://example.com/{{ x }}/deb")
    assert not is_url("https://example.com//deb")
    assert not is_url("http://example.com/deb")
    with pytest.raises(AssertionError):
        assert_packages(["docker.io", "{{ x }}"])
    with pytest.raises(AnsibleUndefinedVariable):
        Role("nvidia_driver", "Debian 12")["__nvidia_driver_nothing"]
