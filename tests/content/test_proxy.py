"""Every task that downloads, or that starts a package manager, goes through the HTTP proxy of its role."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import ROLES, read, tasks_in

if TYPE_CHECKING:
    from pathlib import Path

# dnf reads its repositories for a removal and for a version lock too.
DOWNLOADING = {
    "ansible.builtin.get_url", "ansible.builtin.uri", "ansible.builtin.apt", "ansible.builtin.dnf",
    "ansible.builtin.package", "community.general.dnf_versionlock", "ddp.play.recorded_packages",
    "ddp.play.apt_transaction", "ddp.play.repository_key",
}  # fmt: skip
COMMAND = re.compile(r"'pip', 'install'|\bdnf\b|\bcrb\b|_(un)?hold(_add|_list)?\b")
MIN_TASKS = 55


def downloads(role: Path) -> list[dict[str, Any]]:
    tasks = [
        task
        for folder in ("tasks", "handlers")
        for path in role.glob(f"{folder}/*.yml")
        for task in tasks_in(read(path))
    ]
    return [task for task in tasks if DOWNLOADING & set(task) or COMMAND.search(commands(task))]


def commands(task: dict[str, Any]) -> str:
    started = {**task.get("ansible.builtin.command", {}), **task.get("ddp.play.host_state", {})}
    return f"{started.get('argv', '')} {started.get('commands', '')}"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_task_that_downloads_has_the_environment_of_its_role(role: Path) -> None:
    environment = f"__{role.name}_environment"
    assert [task["name"] for task in downloads(role) if environment not in task.get("environment", "")] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_that_downloads_has_a_proxy_of_its_own_that_is_the_inventorys_by_default(role: Path) -> None:
    default = (read(role / "defaults/main.yml") or {}).get(f"{role.name}_proxy")
    assert default == ("{{ ddp_proxy | default('') }}" if downloads(role) else None)


def test_tasks_that_download_are_found() -> None:
    assert sum(len(downloads(role)) for role in ROLES) >= MIN_TASKS
