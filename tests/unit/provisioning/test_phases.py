"""Phases of a provisioning playbook, from its plays and an inventory."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.phases import Phase, groups_of_roles, known_groups, known_roles, plan_phases, planned_cells

PLAYS: list[dict[str, Any]] = [
    {"name": "Nothing without a limit", "hosts": "all", "tasks": [{"ansible.builtin.assert": {"that": True}}]},
    {"name": "OS", "hosts": "ranks:nfs", "roles": [{"role": "ddp.play.base_os", "tags": ["base_os"]}]},
    {
        "name": "Reading",
        "hosts": "all",
        "tasks": [{"ansible.builtin.import_role": {"name": "ddp.play.docker_engine"}, "tags": ["never"]}],
    },
    {
        "name": "Engine",
        "hosts": "ranks:!bare",
        "tasks": [{"ansible.builtin.import_role": {"name": "ddp.play.docker_engine"}, "tags": ["docker_engine"]}],
    },
    {"name": "Last", "hosts": "all", "tasks": [{"ansible.builtin.fail": {"msg": "not as provisioned"}}]},
]
IN_BLOCKS = [
    {
        "name": "GPU",
        "hosts": "ranks",
        "tasks": [
            {
                "tags": ["nccl"],
                "block": [{"block": [{"ansible.builtin.import_role": {"name": "ddp.play.nccl"}, "tags": ["more"]}]}],
                "rescue": [{"ansible.builtin.set_fact": {"ddp_failed_roles": ["nccl"]}}],
            }
        ],
    }
]
INVENTORY = Inventory({"ranks": Group("ranks", ("h1", "h2")), "bare": Group("bare", ("h2",))}, {})


def test_plays_become_phases() -> None:
    phases = plan_phases(PLAYS, INVENTORY)
    assert phases == (Phase("OS", ("h1", "h2"), ("base_os",)), Phase("Engine", ("h1",), ("docker_engine",)))
    assert planned_cells(phases) == (("h1", "base_os"), ("h2", "base_os"), ("h1", "docker_engine"))


def test_tags_leave_the_others_out() -> None:
    assert [phase.name for phase in plan_phases(PLAYS, INVENTORY, ("docker_engine",))] == ["Engine"]
    assert plan_phases(PLAYS, INVENTORY, ("nothing",)) == ()


@pytest.mark.parametrize(("tags", "found"), [((), 1), (("nccl",), 1), (("more",), 1), (("other",), 0)])
def test_a_role_in_a_block_has_the_tags_of_the_block(tags: tuple[str, ...], found: int) -> None:
    assert plan_phases(IN_BLOCKS, INVENTORY, tags) == (Phase("GPU", ("h1", "h2"), ("nccl",)),) * found


def test_roles_and_groups_of_the_playbook() -> None:
    assert known_roles(PLAYS) == ("base_os", "docker_engine")
    assert known_groups(PLAYS) == ("ranks", "nfs", "bare")
    assert known_roles(IN_BLOCKS) == ("nccl",)
    assert groups_of_roles(PLAYS, ()) == ("ranks", "nfs")
    assert groups_of_roles(PLAYS, ("docker_engine",)) == ("ranks",)
