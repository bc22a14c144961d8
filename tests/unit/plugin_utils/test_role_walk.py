"""A role's parsed tasks, followed with the answers of a host, as Ansible itself would go through them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play import Play
from ansible.template import Templar, trust_as_template
from ansible.vars.manager import VariableManager
from ansible_collections.ddp.play.plugins.plugin_utils.role_walk import (
    Question,
    UnknownError,
    Walker,
    argument_specs,
    own_variables,
    pattern_matches,
    tasks_by_role,
)

from tests.content.role_files import ROOT

if TYPE_CHECKING:
    from pathlib import Path

STATE = "ddp.play.host_state"
FACTS: dict[str, Any] = {
    "ansible.builtin.setup": {"gather_subset": ["!all"]},
    "when": "ansible_facts.distribution is not defined",
}
READ: dict[str, Any] = {
    STATE: {"files": "{{ paths }}", "settled": ["demo.files['/a'] == wanted"]},
    "register": "demo",
}
END: dict[str, Any] = {"ansible.builtin.meta": "end_role", "when": "demo.settled | default(false)"}
ASSERT: dict[str, Any] = {"ansible.builtin.assert": {"that": "demo.files['/a'] == wanted", "fail_msg": "no"}}
SKIP: list[dict[str, Any]] = [
    {"ansible.builtin.debug": {"msg": "skipped: demo: {{ why }}"}, "when": "empty"},
    {"ansible.builtin.meta": "end_role", "when": "empty"},
]
TASKS: list[dict[str, Any]] = [*SKIP, FACTS, READ, END, ASSERT]
SYSTEM: dict[str, Any] = {"ansible_facts": {"ansible_distribution": "Debian", "ansible_service_mgr": "systemd"}}


def walker(folder: Path, tasks: list[dict[str, Any]], **variables: Any) -> tuple[Walker, list[Any]]:
    """A walk through a role with these tasks, loaded by Ansible itself."""
    role = folder / "roles/demo"
    (role / "tasks").mkdir(parents=True)
    (role / "defaults").mkdir()
    (role / "vars").mkdir()
    (role / "vars/main.yml").write_text(yaml.safe_dump({"__fixed": 1}))
    (role / "tasks/verify.yml").write_text(yaml.safe_dump(tasks))
    (role / "defaults/main.yml").write_text(
        yaml.safe_dump({"wanted": 1, "paths": ["/a"], "empty": False, "why": "none"})
    )
    imported = {"ansible.builtin.import_role": {"name": "demo", "tasks_from": "verify", "public": False}}
    site = [{"hosts": "localhost", "become": True, "tasks": [imported]}]
    (folder / "site.yml").write_text(yaml.safe_dump(site))
    loader = DataLoader()
    loader.set_basedir(str(folder))
    manager = VariableManager(loader, InventoryManager(loader, "localhost,"))
    (data,) = loader.load_from_file(str(folder / "site.yml"), trusted_as_template=True)
    play = Play.load(data, manager, loader)
    found = tasks_by_role(play.tasks)
    assert list(found) == ["demo"]
    # as in a run, where manager.get_vars has the facts of the host as well
    scope = {**manager.get_vars(play=play), "ansible_facts": {}, **variables}
    own = own_variables(scope, found["demo"][0]._role, {})
    return Walker(Templar(loader=loader), "demo", own, (True, "")), found["demo"]


def followed(
    folder: Path, tasks: list[dict[str, Any]], *answers: Any, **variables: Any
) -> tuple[list[Question], str | None]:
    """The questions of a walk, and its result; None where it cannot tell."""
    steps, parsed = walker(folder, tasks, **variables)
    walk = steps.walk(parsed)
    asked: list[Question] = []
    replies = iter([None, *answers])
    try:
        while True:
            asked.append(walk.send(next(replies)))
    except StopIteration as ended:
        return asked, ended.value
    except UnknownError:
        return asked, None


def test_a_host_in_the_wanted_state(tmp_path: Path) -> None:
    asked, result = followed(tmp_path, TASKS, SYSTEM, {"files": {"/a": 1}})
    assert asked == [Question("ansible.builtin.setup", {"gather_subset": ["!all"]}), Question(STATE, {"files": ["/a"]})]
    assert result == ""


def test_facts_that_are_known_are_not_read(tmp_path: Path) -> None:
    known = {"distribution": "Debian", "service_mgr": "systemd"}
    asked, result = followed(tmp_path, TASKS, {"files": {"/a": 1}}, ansible_facts=known)
    assert ([question.module for question in asked], result) == ([STATE], "")


@pytest.mark.parametrize("state", [{"files": {"/a": 2}}, {"files": {}}, {}])
def test_a_host_in_another_state_is_left_to_the_role(tmp_path: Path, state: dict[str, Any]) -> None:
    asked, result = followed(tmp_path, TASKS, SYSTEM, state)
    assert (len(asked), result) == (2, None)


def test_a_role_without_anything_to_do_says_why(tmp_path: Path) -> None:
    assert followed(tmp_path, TASKS, empty=True, why="no mounts\n") == ([], "no mounts")


def test_variables_of_the_inventory_win_over_defaults(tmp_path: Path) -> None:
    asked, result = followed(tmp_path, TASKS, SYSTEM, {"files": {"/a": 2}}, paths=["/a", "/b"], wanted=2)
    assert asked[-1].arguments == {"files": ["/a", "/b"]}
    assert result == ""


def test_what_a_host_answers_is_no_template(tmp_path: Path) -> None:
    assert followed(tmp_path, TASKS, SYSTEM, {"files": {"/a": "{{ 1 }}"}})[1] is None


ELSE: dict[str, dict[str, Any]] = {
    "another module": {"ansible.builtin.command": {"argv": ["true"]}},
    "an assertion that does not hold": {"ansible.builtin.assert": {"that": ["not empty", "wanted == 2"]}},
    "another one": {"ansible.builtin.assert": {"that": "wanted == 2"}},
    "one that cannot be evaluated": {"ansible.builtin.assert": {"that": "no_such_variable == 1"}},
    "a failure": {"ansible.builtin.fail": {"msg": "no"}},
    "an include": {"ansible.builtin.include_tasks": "more.yml"},
    "another message": {"ansible.builtin.debug": {"msg": "pending: demo: restart"}},
    "what is pending": {"ansible.builtin.debug": {"msg": "skipped: demo: pending: a restart. The host is busy"}},
    "the message of another role": {"ansible.builtin.debug": {"msg": "skipped: other: none"}},
    "another end": {"ansible.builtin.meta": "end_host"},
    "a loop": {STATE: {"files": ["{{ item }}"]}, "loop": ["/a", "/b"]},
    "another host": {STATE: {"files": ["/a"]}, "delegate_to": "localhost"},
    "once for all": {STATE: {"files": ["/a"]}, "run_once": True},
    "another user": {STATE: {"files": ["/a"]}, "become": False},
    "an environment": {STATE: {"files": ["/a"]}, "environment": {"http_proxy": "http://proxy:3128"}},
    "a failure that is handled": {"block": [{STATE: {"files": ["/a"]}}], "rescue": [{"ansible.builtin.meta": "noop"}]},
    "a condition that cannot be evaluated": {STATE: {"files": ["/a"]}, "when": "no_such_variable == 1"},
    "arguments that cannot be evaluated": {STATE: {"files": ["{{ no_such_variable }}"]}},
}


@pytest.mark.parametrize("task", ELSE.values(), ids=ELSE)
def test_whatever_else_a_role_does_is_left_to_it(tmp_path: Path, task: dict[str, Any]) -> None:
    assert followed(tmp_path, [task, {"ansible.builtin.meta": "end_role"}]) == ([], None)


def test_the_same_under_a_condition_that_does_not_hold(tmp_path: Path) -> None:
    tasks = [{**task, "when": "empty"} for name, task in ELSE.items() if "rescue" not in task]
    assert followed(tmp_path, [*tasks, {"ansible.builtin.meta": "end_role"}]) == ([], "")


@pytest.mark.parametrize("that", ["wanted == 1", ["wanted == 1", "not empty"]])
def test_an_assertion_that_holds_says_nothing(tmp_path: Path, that: Any) -> None:
    tasks: list[dict[str, Any]] = [
        {"ansible.builtin.assert": {"that": that, "fail_msg": "no"}},
        {"ansible.builtin.meta": "end_role"},
    ]
    assert followed(tmp_path, tasks) == ([], "")


def test_a_role_that_asserts_after_a_message_is_not_skipped(tmp_path: Path) -> None:
    """As in the table of a run: a role that runs a task after its message has done something."""
    tasks: list[dict[str, Any]] = [SKIP[0], {"ansible.builtin.assert": {"that": "wanted == 1"}}]
    assert followed(tmp_path, tasks, empty=True) == ([], "")
    assert followed(tmp_path / "last", [*reversed(tasks)], empty=True) == ([], "none")


def test_an_empty_environment_is_none(tmp_path: Path) -> None:
    tasks = [{**READ, "environment": "{{ {} }}"}, END]
    asked, result = followed(tmp_path, tasks, {"files": {"/a": 1}})
    assert (len(asked), result) == (1, "")


def test_a_role_that_goes_on_to_its_end_without_doing_anything_is_settled(tmp_path: Path) -> None:
    """As nvidia_driver does, whose proof comes last."""
    proof = {**READ, "register": "proof"}
    asked, result = followed(tmp_path, [READ, proof, ASSERT], {"files": {"/a": 1}}, {"files": {"/a": 1}})
    assert (len(asked), result) == (2, "")
    assert followed(tmp_path / "empty", []) == ([], "")


def test_variables_of_an_import_reach_the_conditions_of_a_reading(tmp_path: Path) -> None:
    tasks = [{**READ, "vars": {"wanted": 3}}, END, {"ansible.builtin.fail": {"msg": "not settled"}}]
    assert followed(tmp_path, tasks, {"files": {"/a": 3}})[1] == ""


def test_an_option_that_is_left_out(tmp_path: Path) -> None:
    tasks = [{STATE: {"files": ["/a"], "timeout_s": "{{ 5 if empty else omit }}"}, "register": "demo"}]
    assert followed(tmp_path, tasks, {})[0] == [Question(STATE, {"files": ["/a"]})]


def test_variables_of_an_import(tmp_path: Path) -> None:
    tasks = [{**READ, "vars": {"paths": ["/c"]}}]
    assert followed(tmp_path, tasks, {})[0][0].arguments == {"files": ["/c"]}


def real_plays(given: dict[str, Any], *names: str) -> tuple[VariableManager, list[Play]]:
    """These plays of verify.yml, and the variables of host h1, which has the given ones."""
    loader = DataLoader()
    inventory = InventoryManager(loader, "h1,")
    for name, value in given.items():
        inventory.get_host("h1").set_variable(name, value)
    manager = VariableManager(loader, inventory)
    rows = loader.load_from_file(str(ROOT / "playbooks/verify.yml"), trusted_as_template=True)
    found = {row["name"]: row for row in rows}
    return manager, [Play.load(found[name], manager, loader) for name in names]


@pytest.mark.parametrize("registry", ["10.1.0.1", ""])
def test_a_role_has_the_variables_that_it_has_in_its_own_play(registry: str) -> None:
    """Those of another role's name too, which docker_engine reads, if somebody has set them."""
    given = {"image_distribution_registry_address": registry, "docker_engine_proxy": "http://proxy:3128"}
    manager, (reading, own) = real_plays({**given, "rdma_enabled": True}, "Reading of the hosts", "Container engine")
    host = manager._inventory.get_host("h1")
    inside = [part for block in own.tasks for part in block.block]
    task = tasks_by_role(inside)["docker_engine"][-1]
    wanted = manager.get_vars(play=own, host=host, task=task)
    scope = manager.get_vars(play=reading, host=host)
    found = own_variables(scope, tasks_by_role(reading.tasks)["docker_engine"][0]._role, {})
    names = {name for name in found if "docker_engine" in name} | set(given) | {"rdma_enabled"}
    assert {name: found[name] for name in names} == {name: wanted[name] for name in names}
    assert set(found) - {"role_names"} <= set(wanted)
    assert "vars" not in found


def test_arguments_that_the_spec_of_a_role_refuses(tmp_path: Path) -> None:
    spec = {"wanted": {"type": "int"}, "why": {"type": "str", "choices": ["none"]}, "paths": {"type": "list"}}
    spec["empty"] = {"type": "bool", "default": "{{ later | bool }}"}
    given = {
        "wanted": "{{ 'many' }}",
        "why": "{{ ansible_facts.later }}",
        "empty": "{{ later }}",
        "paths": "{{ omit }}",
    }
    templates = {name: trust_as_template(text) for name, text in given.items()}
    (error,) = walker(tmp_path / "wrong", TASKS, **templates)[0].refused(spec)
    assert "wanted" in error
    assert "many" in error
    assert walker(tmp_path / "right", TASKS, wanted=trust_as_template("{{ 1 }}"))[0].refused(spec) == []


def test_which_tasks_of_a_role_validate_its_arguments() -> None:
    _, (reading,) = real_plays({}, "Reading of the hosts")
    role = tasks_by_role(reading.tasks)["nvidia_driver"][0]._role
    spec, validates = argument_specs(role)
    assert spec["nvidia_driver_enabled"]["choices"] == ["auto", "true", "false"]
    assert not validates
    role._from_files = {}
    assert argument_specs(role) == (spec, True)


def test_variables_in_their_order(tmp_path: Path) -> None:
    _, tasks = walker(tmp_path, [{"ansible.builtin.meta": "end_role"}], wanted=2)
    given = {"wanted": 2, "__fixed": 2, "other": True}
    found = own_variables({**given, "vars": given}, tasks[0]._role, {})
    assert found == {"wanted": 2, "paths": ["/a"], "empty": False, "why": "none", "__fixed": 1, "other": True}
    assert own_variables(given, tasks[0]._role, {"__fixed": 3, "paths": []}) == {**found, "__fixed": 3, "paths": []}


@pytest.mark.parametrize(
    ("pattern", "groups", "matches"),
    [
        ("ranks:spares", ["ranks"], True),
        ("ranks:spares", ["monitoring"], False),
        ("ranks:registry:!without_docker", ["ranks", "without_docker"], False),
        ("ranks:registry:!without_docker", ["registry"], True),
        ("all", [], True),
        ("h1", [], True),
        ("", ["ranks"], False),
    ],
)
def test_hosts_of_a_play(pattern: str, groups: list[str], matches: bool) -> None:
    assert pattern_matches(pattern, groups, "h1") is matches
