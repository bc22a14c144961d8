"""The subset of the system's facts is the one that the roles read; test_settled_roles compares the facts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.module_utils import system_reading

from tests.content.role_files import read
from tests.content.role_tasks import ROLES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_the_subset_is_that_of_the_roles(role: Path) -> None:
    (task,) = read(role / "tasks/facts.yml")
    assert task["ansible.builtin.setup"] == {"gather_subset": system_reading.SUBSET}
