"""Exports that leave the inventory while a client uses them: kept, told, and taken away on request."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .conftest import Site
from .machines import STORAGE
from .site import SHARED, SUBNET
from .test_nfs_late_server import CLIENT, mount_again

MORE, ELSEWHERE = "/srv/more", "10.77.0.99"
WANTED = [{"path": SHARED, "clients": [ELSEWHERE]}, {"path": MORE, "clients": [SUBNET]}]
LIMITS = ("--tags", "nfs_server", "--limit", STORAGE, "-e", json.dumps({"nfs_server_exports": WANTED}))
EXPORTED = "exportfs -s | cut -d'(' -f1"


@pytest.fixture(autouse=True)
def mounted(site: Site) -> Iterator[None]:
    """The client has its mount before the test and after it; the exports are those of the inventory."""
    mount_again(site)
    yield
    mount_again(site)
    site.cluster.on(STORAGE, f"rmdir {MORE}")


def exported(site: Site) -> set[tuple[str, ...]]:
    """Path and client of the kernel's exports."""
    return {tuple(line.split()) for line in site.cluster.on(STORAGE, EXPORTED).splitlines()}


def test_an_export_in_use_is_not_taken_away(site: Site) -> None:
    cluster = site.cluster
    cluster.on(CLIENT, f"timeout 60 ls {SHARED}")
    code, cells = site.table("provision", "--yes", *LIMITS)
    cell = cells[STORAGE, "nfs_server"]
    says = f"exports to take away or to change: {SHARED} to {SUBNET}; clients are connected: "
    assert (code, says in cell.get("pending", "")) == (0, True), cell
    assert exported(site) == {(SHARED, SUBNET), (SHARED, ELSEWHERE), (MORE, SUBNET)}
    cluster.on(CLIENT, f"timeout 60 runuser -u ops -- touch {SHARED}/in-use")
    code, cells = site.table("verify", *LIMITS)
    assert (code, says in json.dumps(cells[STORAGE, "nfs_server"])) == (1, True)
    code, cells = site.table("provision", "--yes", "--disrupt", *LIMITS)
    assert (code, cells[STORAGE, "nfs_server"].get("pending", "")) == (0, ""), cells
    assert exported(site) == {(SHARED, ELSEWHERE), (MORE, SUBNET)}
    cluster.on(STORAGE, f"rm {SHARED}/in-use")
