"""What the removal of a role gives back, says, and is not refused for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from tests.content.role_files import ROOT, tasks_in
from tests.content.role_tasks import JUDGE, ROLES, condition, included, modules, names, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

UNIT_MODULES = {"ansible.builtin.systemd_service", "ddp.play.unit_start"}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_remove_says_what_remains(role: Path) -> None:
    last = tasks_of(role, "remove")[-1]
    assert last["name"] == "remove | Report what remains on the host"
    assert "left on {{ inventory_hostname }}" in last["ansible.builtin.debug"]["msg"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_removal_is_not_refused_for_settings_that_only_an_installation_needs(role: Path) -> None:
    """Of what preflight refuses, only an unknown system keeps the role from giving back what it changed."""
    if not any(included(task) == "preflight" for task in tasks_of(role, "remove")):
        return
    for task in tasks_of(role, "preflight"):
        if not modules(task) & JUDGE or f"not __{role.name}_removes" in condition(task):
            continue
        items = task.get("ansible.builtin.assert", {}).get("that", "fail")
        needed = [items] if isinstance(items, str) else items
        allowed = (f"__{role.name}_removes or ", f"__{role.name}_os in ", "source != 'distribution' or ")
        assert [text for text in needed if not any(words in text for words in allowed)] == [], task["name"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_units_that_a_role_enables_are_disabled_or_get_their_recorded_state_back(role: Path) -> None:
    """A package that is removed may leave the link of its unit."""
    tasks = [task for name in sorted(names(role)) for task in tasks_in(tasks_of(role, name))]
    enables = any(setting.get("enabled") is True for setting in settings(tasks, UNIT_MODULES))
    records = any(setting.get("units") for setting in settings(tasks, {"ddp.play.host_record"}))
    disables = any(
        setting.get("enabled") is False for setting in settings(tasks_in(tasks_of(role, "remove")), UNIT_MODULES)
    )
    assert records or disables or not enables


@pytest.mark.parametrize(
    ("line", "ours", "removes"),
    [
        ("account required pam_slurm_adopt.so", True, False),
        ("account required pam_slurm_adopt.so", False, True),
        ("# account required pam_slurm_adopt.so", True, True),
        ("# BEGIN ddp-play (role slurm)\naccount required pam_slurm_adopt.so\n# END ddp-play (role slurm)", True, True),
    ],
)
def test_the_module_of_a_line_of_pam_that_stays_is_not_removed(*, line: str, ours: bool, removes: bool) -> None:
    """PAM refuses everybody where the module of a required line is missing."""
    names = [next(iter(modules(task))) for task in tasks_of(ROOT / "roles/slurm", "remove")]
    judge = names.index("ansible.builtin.assert")
    assert judge < names.index("ddp.play.pam_block") < names.index("ddp.play.recorded_packages")
    own = DataLoader().load_from_file(str(ROOT / "roles/slurm/vars/main.yml"), trusted_as_template=True)
    files = {"/etc/pam.d/sshd": {"content": line + "\n"}, "/etc/pam.d/common-account": {"content": ""}}
    read = {"__slurm_state": {"files": files}, "ansible_facts": {"ddp_slurm": {"pam_adopt_is_ours": ours}}}
    that = tasks_of(ROOT / "roles/slurm", "remove")[judge]["ansible.builtin.assert"]["that"]
    assert Templar(DataLoader(), {**own, **read}).evaluate_conditional(trust_as_template(that)) is removes


def settings(tasks: Iterable[dict[str, Any]], wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Options of the tasks with one of these modules."""
    for task in tasks:
        yield from (task[module] for module in wanted & set(task))
