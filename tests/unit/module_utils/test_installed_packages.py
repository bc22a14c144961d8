"""Packages of a host are listed by its own package manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import installed_packages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("programs", "apt", "lists"),
    [
        (["apt-get", "dpkg-query"], True, "dpkg-query"),
        (["apt-get", "dpkg-query", "rpm"], True, "dpkg-query"),
        (["dnf", "rpm"], False, "rpm"),
        (["dnf", "rpm", "dpkg-query"], False, "rpm"),
    ],
)
def test_a_host_with_the_tools_of_another_system_is_still_asked_with_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: list[str], apt: bool, lists: str
) -> None:
    for name in programs:
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (installed_packages.uses_apt(), installed_packages.query()[0]) == (apt, lists)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", set()),
        ("bash installed\ndkms config-files\ngone not-installed\n", {"bash", "dkms"}),
        ("bash\ngpg-pubkey\ngpg-pubkey\n", {"bash", "gpg-pubkey"}),
    ],
)
def test_names_in_the_list_of_either(text: str, names: set[str]) -> None:
    """A package that left its configuration counts: it can be purged."""
    assert installed_packages.read(text) == names


@pytest.mark.parametrize(
    ("listing", "working"),
    [
        ("a installed\nb config-files\nc not-installed\nd half-configured\n", {"a"}),
        ("a\nb\n", {"a", "b"}),
        ("", set()),
    ],
)
def test_packages_that_work(listing: str, working: set[str]) -> None:
    assert installed_packages.read_working(listing) == working
