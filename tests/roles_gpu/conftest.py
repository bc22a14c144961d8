"""Hosts for the GPU roles' tests; skipped, saying so, where no images are named."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.roles_gpu import stub_repo
from tests.roles_gpu.debs import write_repository
from tests.roles_gpu.hosts import Host

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each: debootstrap --variant=minbase with systemd, systemd-sysv, python3, dbus, kmod; then docker import.
IMAGES = os.environ.get("ROLES_GPU_IMAGES", "").split()


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("stub") / "repo"
    write_repository(target, stub_repo.all_packages(platform.release()), key_names=stub_repo.KEY_NAMES)
    return target


@pytest.fixture(scope="module", params=IMAGES or ["none"])
def host(request: pytest.FixtureRequest, repository: Path) -> Iterator[Host]:
    if not IMAGES:
        pytest.skip("ROLES_GPU_IMAGES names no images (systemd, python3, kmod; apt)")
    created = Host(f"rg-{request.module.__name__.rsplit('.', 1)[-1].replace('_', '-')}-{os.getpid()}", request.param)
    try:
        created.put(repository, "/srv/stub")
        yield created
    finally:
        created.remove()
