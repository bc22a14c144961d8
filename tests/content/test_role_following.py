"""The first play of provision and verify has each role with the hosts of its play, and imports the tasks it follows."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.provisioning.host_role_table import NOTED
from tests.content.role_files import PLAYBOOKS, ROOT, read, tasks_in
from tests.content.role_tasks import ROLES, condition, included, tasks_of
from tests.content.test_role_ends import reached, words

if TYPE_CHECKING:
    from pathlib import Path

IMPORT = "ansible.builtin.import_role"
NOT_FOLLOWED = {"slurm": "it compares hosts with each other, and a job of all nodes proves it"}
FOLLOWED = [role for role in ROLES if role.name not in NOT_FOLLOWED]
VERIFIED_IN_ORDER = read(ROOT / "playbooks/verify.yml")[0]["tasks"][0]["ddp.play.settled_roles"]["roles"]
LINEAR = "ansible.builtin.linear"
TASKS_FROM = {"provision": None, "verify": "verify"}


def short(name: str) -> str:
    return name.rpartition(".")[2]


def plays(playbook: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The play that reads the hosts, and those of the roles."""
    first, *others = read(ROOT / f"playbooks/{playbook}.yml")
    return first, others


def roles_of(play: dict[str, Any], tasks_from: str | None) -> list[str]:
    """Roles that a play runs from this file of tasks."""
    listed = [short(row["role"]) for row in play.get("roles", ())]
    imported = [task[IMPORT] for task in tasks_in(play.get("tasks", [])) if IMPORT in task]
    return listed + [short(row["name"]) for row in imported if row.get("tasks_from") == tasks_from]


@pytest.mark.parametrize(("playbook", "tasks_from"), TASKS_FROM.items())
def test_each_role_is_followed_on_the_hosts_of_its_play(playbook: str, tasks_from: str | None) -> None:
    first, others = plays(playbook)
    hosts = {role: play["hosts"] for play in others for role in roles_of(play, tasks_from)}
    assert first["tasks"][0]["ddp.play.settled_roles"]["roles"] == hosts
    groups = {group for pattern in hosts.values() for group in pattern.split(":") if not group.startswith("!")}
    assert groups <= set(first["hosts"].split(":"))


@pytest.mark.parametrize(("playbook", "tasks_from"), TASKS_FROM.items())
def test_the_tasks_that_are_followed_never_run(playbook: str, tasks_from: str | None) -> None:
    first, _ = plays(playbook)
    imports = [task for task in first["tasks"] if IMPORT in task]
    assert [short(task[IMPORT]["name"]) for task in imports] == [
        role for role in first["tasks"][0]["ddp.play.settled_roles"]["roles"] if role not in NOT_FOLLOWED
    ]
    for task in imports:
        given = task[IMPORT]
        assert task["tags"] == ["never"]
        assert (given["public"], given["rolespec_validate"], given.get("tasks_from")) == (False, False, tasks_from)


@pytest.mark.parametrize(("playbook", "tasks_from"), TASKS_FROM.items())
def test_every_phase_ends_if_nothing_is_to_be_done_anywhere(playbook: str, tasks_from: str | None) -> None:
    """In verify but for that of role slurm, which is not followed, and for the firewall, which a peer tries."""
    first, others = plays(playbook)
    if playbook == "verify":
        others = [play for play in others if set(roles_of(play, tasks_from)) - set(NOT_FOLLOWED)]
    (decide,) = [task for task in first["tasks"] if "ansible.builtin.set_fact" in task]
    assert decide["run_once"] is True
    assert first.get("strategy") is None, "with another strategy than linear each host would decide"
    for play in others:
        (task,) = play["pre_tasks"]
        assert (task["ansible.builtin.meta"], task["tags"]) == ("end_play", ["always"])
        assert condition(task) == "ddp_all_settled | default(false)"


def test_a_host_on_which_a_role_fails_is_verified_to_the_end_and_fails_in_the_last_play() -> None:
    """Each role has its name for the note, on the import's block: a failed role does not end the play for the host."""
    _, others = plays("verify")
    *phases, last = others
    blocks = [block for play in phases for block in play["tasks"]]
    assert [name for block in blocks for name in roles_of({"tasks": [block]}, "verify")] == list(VERIFIED_IN_ORDER)
    for block in blocks:
        (role,) = {short(task[IMPORT]["name"]) for task in tasks_in([block]) if IMPORT in task}
        assert (block["vars"], block["tags"]) == ({"ddp_verified": role}, [role])
        for part in (part for part in tasks_in([block]) if "block" in part):
            note, *out = part["rescue"]
            assert set(note["ansible.builtin.set_fact"]) == {NOTED}
            assert bool(out) == ("block" in part["block"][0])
    end, fail = last["tasks"]
    assert (end["ansible.builtin.meta"], condition(end)) == ("end_host", f"{NOTED} is not defined")
    assert NOTED in fail["ansible.builtin.fail"]["msg"]
    assert last["hosts"] == plays("verify")[0]["hosts"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_where_one_task_fails_all_hosts_each_host_has_its_note(role: Path) -> None:
    """Ansible fails the other hosts twice for such a failure, so their note is in an outer rescue."""
    for_all = any(task.get("run_once") for task in tasks_in(run_by(role, "verify")))
    (play,) = [play for play in plays("verify")[1] if role.name in roles_of(play, "verify")]
    (block,) = [block for block in play["tasks"] if role.name in roles_of({"tasks": [block]}, "verify")]
    linear = play.get("strategy", LINEAR) == LINEAR  # only there a task runs once for all
    assert ("block" in block["block"][0]) == (linear and for_all)


def test_every_play_of_verify_knows_the_settled_roles() -> None:
    _, others = plays("verify")
    for play in others:
        followed = set(roles_of(play, "verify")) - set(NOT_FOLLOWED)
        wanted = "{{ ansible_facts.ddp_settled_roles | default({}) }}" if followed else None
        assert play.get("vars", {}).get("ddp_settled") == wanted, play["name"]


@pytest.mark.parametrize("role", FOLLOWED, ids=lambda role: role.name)
def test_a_verification_ends_first_if_it_was_followed(role: Path) -> None:
    """The variable is one of the plays of verify.yml: in a site's own playbook a role reads the host itself."""
    first = tasks_of(role, "verify")[0]
    assert first["ansible.builtin.meta"] == "end_role"
    assert condition(first) == f"'{role.name}' in ddp_settled | default({{}})"


def parts() -> set[tuple[str, str]]:
    """Roles and their files that a playbook runs besides main and verify."""
    found: set[tuple[str, str]] = set()
    for playbook in PLAYBOOKS:
        for task in tasks_in(read(playbook)):
            given = task.get(IMPORT) or task.get("ansible.builtin.include_role") or {}
            found.add((short(given.get("name", "")), given.get("tasks_from", "main")))
    return {(role.name, name) for role in FOLLOWED for name in sorted({n for r, n in found if r == role.name})}


def run_by(role: Path, name: str) -> list[dict[str, Any]]:
    """The tasks of this file, and of those that it imports or includes by their names."""
    tasks = list(tasks_in(tasks_of(role, name)))
    others = [other for task in tasks if (other := included(task)) and "{" not in other]
    return tasks + [task for other in others for task in run_by(role, other)]


@pytest.mark.parametrize(("name", "file"), sorted(parts()))
def test_no_part_of_a_role_needs_what_another_part_has_read(name: str, file: str) -> None:
    """A settled role ends before its reading: its parts that a playbook runs later read for themselves."""
    role = ROOT / "roles" / name
    tasks = run_by(role, file)
    state = f"__{name}_state"
    if state in reached(role, words(name, str(tasks))):
        assert state in [task.get("register") for task in tasks]


@pytest.mark.parametrize("role", FOLLOWED, ids=lambda role: role.name)
def test_a_role_needs_no_variable_that_another_role_defines(role: Path) -> None:
    """Where it is followed, it has no defaults of others; in its own play it may have them."""
    others = {name for other in ROLES if other != role for name in read(other / "defaults/main.yml") or {}}
    for path in (path for name in ("defaults", "vars", "tasks", "templates") for path in role.glob(f"{name}/*")):
        text = "\n".join(line for line in path.read_text().splitlines() if not line.strip().startswith("#"))
        used = {name for name in re.findall(r"\b[a-z]\w+\b(?! \| default\()", text) if name in others}
        assert used == set(), path.name


def test_what_every_process_of_a_host_needs_is_loaded_before_it_is_forked() -> None:
    """Ansible gets the class of the plugin in its main process: with it come the collection's filters."""
    program = (
        "import sys; from ansible.plugins.loader import action_loader, init_plugin_loader; init_plugin_loader();"
        "action_loader.get('ddp.play.settled_roles', class_only=True); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    package = "ansible_collections.ddp.play.plugins.filter."
    loaded = {name.removeprefix(package) for name in done.stdout.split() if name.startswith(package)}
    assert loaded == {path.stem for path in (ROOT / "plugins/filter").glob("*.py")}
