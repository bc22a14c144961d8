"""Replacing a host's engine when asked by name: in one transaction after the download, or not at all; a hung engine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from tests.roles_gpu import engine_mirror

from .guests import Guest, assert_says, provisioned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .guests import Street

MIRROR = {"docker_engine_replace": True, "ddp_mirror_url": "file:///srv/mirror"}
DEBIAN = f"/srv/mirror/{engine_mirror.REPOSITORY}"
GUESTS = {
    "h1": Guest(engine_mirror.KEEP_PROGRAMS, MIRROR, "changed", ""),
    "h2": Guest(
        f"rm {DEBIAN}/pool/docker-ce_*; echo '# theirs' > /etc/apt/sources.list.d/docker.list",
        MIRROR,
        "failed",
        "step download, nothing was removed",
    ),
    "h3": Guest(f"rm -r {DEBIAN}/dists", MIRROR, "failed", "step update, nothing was removed"),
    "h4": Guest(f"rm {DEBIAN}/gpg", MIRROR, "failed", "Request failed"),
    "h5": Guest("pkill -STOP -x dockerd", MIRROR, "skipped", "the Docker engine does not answer"),
}


@pytest.fixture(scope="module")
def street(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    """All guests, provisioned once."""
    folder = tmp_path_factory.mktemp("site")
    trusts = engine_mirror.write(folder / "mirror")
    guests = {name: dataclasses.replace(guest, variables=guest.variables | trusts) for name, guest in GUESTS.items()}
    with provisioned(lab_home, guests, folder / "replaced.json", folder / "mirror") as found:
        yield found


@pytest.mark.parametrize("host", GUESTS)
def test_each_host_says_what_became_of_it(street: Street, host: str) -> None:
    assert_says(street, host, GUESTS[host])


@pytest.mark.parametrize("host", ["h1", "h2", "h3", "h4"])
def test_containers_run_afterwards_whatever_happened(street: Street, host: str) -> None:
    assert street.after[host]["runs"] == "ran"


@pytest.mark.parametrize("host", ["h2", "h3", "h4", "h5"])
def test_what_was_not_done_left_everything_as_it_was(street: Street, host: str) -> None:
    """The same process, packages, daemon.json and package sources; of the container too, where there is one."""
    assert street.after[host] == street.before[host]


def test_an_engine_is_replaced_when_asked_by_name(street: Street) -> None:
    names = street.after["h1"]["packages"]
    assert "installed docker-ce 5:29.1.3" in names
    assert "installed docker.io 20.10" in street.before["h1"]["packages"]
    assert "installed docker.io" not in names
