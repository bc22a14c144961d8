"""Every address of a vendor in a role goes through the mirror of the site, and no role has another switch for it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import ROLES, ROOT, read, spec_of
from tests.content.test_platforms import SYSTEMS, Role

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# With a host name: http://HOST:PORT and "http://%s" are no addresses.
ADDRESS = re.compile(r"(?:https?|ftp)://[a-z0-9][a-z0-9.-]*")
COMMENT = re.compile(r"^\s*#.*$|\{#.*?#\}", re.MULTILINE)
MIRROR = "https://mirror.site.example"
GUIDE = ROOT / "docs/onboarding.md"
FETCHING = {"docker_engine", "nvidia_container_toolkit", "nvidia_driver", "rdma"}  # at least


def texts(role: Path) -> Iterator[str]:
    """Values in the role's YAML, and lines of its templates; no comments."""
    for folder in ("defaults", "vars", "tasks", "handlers"):
        for path in sorted(role.glob(f"{folder}/*.yml")):
            yield from strings(read(path))
    for path in sorted(role.glob("templates/*")):
        yield from COMMENT.sub("", path.read_text(encoding="utf-8")).splitlines()


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        node = [*node, *node.values()]
    if isinstance(node, list):
        for item in node:
            yield from strings(item)
    elif isinstance(node, str):
        yield node


def addresses(role: Path) -> list[str]:
    """Texts in which the role names a server."""
    return [text for text in texts(role) if ADDRESS.search(text)]


def unmirrored(name: str, text: str) -> list[str]:
    """Addresses of a text to which the filter with the role's variable is not applied directly."""
    through = re.compile(rf"'{ADDRESS.pattern}[^'\s]*'\s*\|\s*ddp\.play\.mirrored\({name}_mirror_url\)")
    return ADDRESS.findall(through.sub("", text))


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_address_goes_through_the_mirror(role: Path) -> None:
    assert {text: found for text in addresses(role) if (found := unmirrored(role.name, text))} == {}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_with_addresses_has_a_mirror_of_its_own_that_is_the_inventorys_by_default(role: Path) -> None:
    default = (read(role / "defaults/main.yml") or {}).get(f"{role.name}_mirror_url")
    assert default == ("{{ ddp_mirror_url | default('') }}" if addresses(role) else None)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_mirror_is_no_choice_of_its_own(role: Path) -> None:
    assert [name for name, option in spec_of(role).items() if "mirror" in (option.get("choices") or [])] == []


def test_roles_that_fetch_are_found() -> None:
    assert {role.name for role in ROLES if addresses(role)} >= FETCHING


def test_the_guide_for_hosts_without_internet_names_every_address() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    found = {
        address for role in ROLES for text in addresses(role) for address in re.findall(r"'https://([^']+)'", text)
    }
    assert {address for address in found if f"`{address}/" not in guide} == set()
    assert len(found) >= len(FETCHING)


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("docker_engine", ["__docker_engine_key_url", "__docker_engine_repo_text"]),
        ("nvidia_driver", ["__nvidia_driver_url", "__nvidia_driver_key_url", "__nvidia_driver_epel"]),
        (
            "nvidia_container_toolkit",
            ["__nvidia_container_toolkit_key_url", "__nvidia_container_toolkit_repo_files[0].content"],
        ),
        ("rdma", ["__rdma_key_url", "__rdma_repo_files[0].content"]),
    ],
)
@pytest.mark.parametrize("system", SYSTEMS)
def test_what_a_host_fetches_is_the_vendors_address_below_the_mirrors(
    system: str, name: str, variables: list[str]
) -> None:
    role, plain = Role(name, system, mirror_url=f"{MIRROR}/"), Role(name, system, mirror_url="")
    below = re.compile(r"https://(?!mirror)")
    for variable in variables:
        assert role[variable] == below.sub(f"{MIRROR}/", plain[variable]).replace(
            keys(plain, name), keys(role, name)
        ), variable


def keys(role: Role, name: str) -> str:
    """The path of the key on the host: it depends on the key's address."""
    return str(role[f"__{name}_key_file | default('no key file')"])


@pytest.mark.parametrize(
    "text",
    [
        "https://a.example.com/x",
        "{{ 'https://a.example.com/x' }}",
        "{{ 'https://a.example.com/x' | ddp.play.mirrored(other_mirror_url) }}",
        "{{ ('https://a.example.com/' ~ x) | ddp.play.mirrored(docker_engine_mirror_url) }}",
        "{{ 'https://a.example.com/x' | ddp.play.mirrored(docker_engine_mirror_url) if y else 'http://b.org' }}",
    ],
)
def test_an_address_that_misses_the_mirror_is_seen(text: str) -> None:
    assert ADDRESS.search(text)
    assert unmirrored("docker_engine", text)
    assert not unmirrored(
        "docker_engine", "{{ 'https://a.example.com/x' | ddp.play.mirrored(docker_engine_mirror_url) }}"
    )
