"""Hosts for the GPU roles' tests: one container per Debian release, with a repository of stub packages.

ROLES_GPU_DISTROS=trixie takes only that one. They need what tests/lab needs, and are skipped where that is missing.
With pytest's --numprocesses N all tests of a module on one host run in one process, and N hosts at a time.
"""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.conftest import COMMAND, engine_or_skip
from tests.roles_gpu import mirrors, stub_repo
from tests.roles_gpu.debs import write_repository
from tests.roles_gpu.hosts import Host
from tests.roles_gpu.scheduling import by_host

if TYPE_CHECKING:
    from collections.abc import Iterator

DISTROS = os.environ.get("ROLES_GPU_DISTROS", "bookworm trixie").split()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """pytest-xdist's own --dist loadgroup has no effect with pytest 9.2, which keeps node identifiers elsewhere."""
    return by_host(config, log)


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stub repository, made once."""
    target = tmp_path_factory.mktemp("stub") / "repo"
    write_repository(target, stub_repo.all_packages(platform.release()), key_names=stub_repo.KEY_NAMES)
    return target


@pytest.fixture(scope="module", params=DISTROS)
def host(request: pytest.FixtureRequest, repository: Path) -> Iterator[Host]:
    """A bare host of each release, with the repository at /srv/stub, and mirrors that have it."""
    engine_or_skip()
    image = subprocess.run(
        [COMMAND, "lab", "image", "--distro", request.param, "--no-docker"], capture_output=True, text=True, check=True
    ).stdout.split()[-1]
    module = request.module.__name__.rsplit(".", 1)[-1].replace("_", "-")
    created = Host(f"rg-{module}-{request.param}-{os.getpid()}", image)
    try:
        created.put(repository, mirrors.STUB)
        mirrors.write(created)
        created.site = mirrors.trusted(created.sh(f"cat {mirrors.STUB}/gpgkey"))
        yield created
    finally:
        created.remove()
