"""A check that skips the packages of a new repository lists them instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.content.role_files import read, tasks_in

ROLES = Path(__file__).parents[2] / "roles"
SKIP = re.compile(r"not \((ansible_check_mode and \w+_repository.* is changed)\)")
FILES = [path for path in sorted(ROLES.glob("*/tasks/*.yml")) if SKIP.search(path.read_text())]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROLES)))
def test_skipped_packages_are_listed_under_the_same_condition(path: Path) -> None:
    listed = [str(task["when"]) for task in tasks_in(read(path)) if "ddp.play.planned_changes" in task]
    for condition in SKIP.findall(path.read_text()):
        assert any(condition in when for when in listed), f"{path}: nothing is listed when {condition}"


def test_roles_with_skipped_packages_are_found() -> None:
    assert {path.parts[-3] for path in FILES} >= {"nvidia_container_toolkit", "nvidia_driver", "rdma"}
