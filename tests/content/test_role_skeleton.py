"""Every provisioning role has one skeleton: the same task files with the same names, and phases in the same order.

CONTRIBUTING.md ("Task files of a role") describes it. What differs is named here, with the reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import ROOT, tasks_in
from tests.content.role_tasks import (
    IMPORT,
    INCLUDE,
    JUDGE,
    OTHER_KIND,
    ROLES,
    SAY,
    condition,
    included,
    modules,
    names,
    tasks_of,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REQUIRED = {"main", "facts", "preflight", "read", "install", "assert", "verify", "remove"}
OPTIONAL = {"converge", "configure", "service", "hardware"}
# Parts of a phase that got too long for one file. A part that several roles have has the same name in all.
PARTS = {"skip", "busy", "refuse", "repository", "packages-apt", "packages-dnf", "put-back"}
OWN_PARTS = {
    "base_os": {"peer"},
    "docker_engine": {"users"},
    "nfs_client": {"mount"},
    "nvidia_driver": {"adopt", "fabric", "load", "reboot"},
    "slurm": {"accounting", "cluster", "login"},
}
IMAGES = "hosts depend on each other: the registry has an image before the others pull it, and each image is a step"
BUILDER = "one host may build for all: those that do not build only read again after it"
IMAGE_PHASES = "Preflight,Authority,Registry,Report the images to add,Load,Push,Pull,Read the state again,Verify"
# Roles without converge.yml, and the phases of their main.yml.
OWN_PHASES = {
    "image_distribution": (
        IMAGE_PHASES.split(","),
        {
            "archives_controller",
            "archives_host",
            "authority",
            "engine",
            "forwarded",
            "load",
            "pull",
            "push",
            "registry",
        },
        IMAGES,
    ),
    "python_env": (["Preflight", "Install", "Read the state again", "Verify"], set(), BUILDER),
}
CONVERGED = [role for role in ROLES if role.name not in OWN_PHASES]

FACTS = {"ansible.builtin.setup", "ddp.play.gpu_facts", "ddp.play.rdma_facts", "ddp.play.slurm_facts"}
CONVERGE_ORDER = ["Record", "Report", "Install", "Configure", "Service", "Read"]


def unknown_modules(tasks: list[dict[str, Any]], allowed: set[str]) -> Iterator[str]:
    for task in tasks_in(tasks):
        if not modules(task) <= {IMPORT, INCLUDE, *SAY, *allowed}:
            yield str(task["name"])


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_task_files_have_the_names_of_the_skeleton(role: Path) -> None:
    own = OWN_PARTS.get(role.name, set()) | OWN_PHASES.get(role.name, ([], set(), ""))[1]
    needed = REQUIRED - ({"install"} if role.name == "image_distribution" else set())
    if role in CONVERGED:
        needed = needed | {"converge", "configure"}
    assert needed - names(role) == set()
    assert names(role) - REQUIRED - OPTIONAL - PARTS - own == set()


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_task_file_is_used(role: Path) -> None:
    texts = [path.read_text() for name in ("tasks", "handlers") for path in role.glob(f"{name}/*.yml")]
    named = set(re.findall(r"(?:import|include)_tasks: \"?([\w.{} -]+)\.yml", "\n".join(texts)))
    patterns = [re.compile(re.sub(r"\{\{.*?\}\}", r"[a-z]+", name)) for name in named]
    entries = {"main", "verify", "remove", "peer"}
    computed = OWN_PHASES.get(role.name, ([], set(), ""))[1]
    unused = {name for name in names(role) - entries - computed if not any(p.fullmatch(name) for p in patterns)}
    assert unused == set()


@pytest.mark.parametrize("role", CONVERGED, ids=lambda role: role.name)
def test_main_is_preflight_converge_if_something_is_pending_and_verify(role: Path) -> None:
    tasks = tasks_of(role, "main")
    assert list(unknown_modules(tasks, set())) == []
    phases = [included(task) for task in tasks if included(task) not in PARTS | {""}]
    assert phases == ["preflight", "converge", "assert"]
    (converge,) = [task for task in tasks if included(task) == "converge"]
    assert (converge["name"], converge["when"]) == ("Converge", f"__{role.name}_pending")
    assert INCLUDE in converge, "an import would list the skipped tasks of a host in the wanted state"
    assert (tasks[0]["name"], tasks[-1]["name"]) == ("Preflight", "Verify")
    assert "not ansible_check_mode" in condition(tasks[-1])


@pytest.mark.parametrize("role", [role for role in ROLES if role.name in OWN_PHASES], ids=lambda role: role.name)
def test_a_role_of_other_phases_has_the_phases_named_here(role: Path) -> None:
    tasks = tasks_of(role, "main")
    assert [task["name"] for task in tasks] == OWN_PHASES[role.name][0]
    assert list(unknown_modules(tasks, {"ddp.play.planned_changes"})) == []
    assert (included(tasks[0]), included(tasks[-1])) == ("preflight", "assert")


@pytest.mark.parametrize("role", CONVERGED, ids=lambda role: role.name)
def test_converge_is_record_install_configure_service_and_a_reading(role: Path) -> None:
    tasks = tasks_of(role, "converge")
    heads = [task["name"].removeprefix("converge | ").split()[0] for task in tasks]
    assert heads == sorted(heads, key=CONVERGE_ORDER.index)
    assert included(tasks[-1]) == "read"
    assert list(unknown_modules(tasks, {"ddp.play.host_record"})) == []
    (install,) = [task for task in tasks if included(task) == "install"]
    assert (INCLUDE in install, "when" in install) == (True, True)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_preflight_reads_and_refuses_and_changes_nothing(role: Path) -> None:
    tasks = tasks_of(role, "preflight")
    assert list(unknown_modules(tasks, JUDGE)) == []
    files = {included(task) for task in tasks}
    assert {"facts", "read"} <= files
    assert not files & {"converge", "install", "configure", "service"}
    for part in ("skip", "busy", "refuse"):
        if part in names(role):
            changing = list(unknown_modules(tasks_of(role, part), JUDGE))
            assert changing == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_one_task_reads_the_state(role: Path) -> None:
    (task,) = tasks_of(role, "read")
    assert task["ddp.play.host_state"]["settled"]
    assert task["register"] == f"__{role.name}_state"


@pytest.mark.parametrize("role", [role for role in ROLES if "hardware" in names(role)], ids=lambda role: role.name)
def test_hardware_is_read_by_one_task_under_a_condition(role: Path) -> None:
    (task,) = tasks_of(role, "hardware")
    assert modules(task) <= FACTS
    assert "when" in task


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_verify_is_a_reading_and_assert(role: Path) -> None:
    tasks = tasks_of(role, "verify")
    assert list(unknown_modules(tasks, set())) == []
    files = [included(task) for task in tasks if included(task)]
    assert not set(files) & {"preflight", "converge", "install", "configure", "service"}
    own = OWN_PHASES.get(role.name, ([], set(), ""))[1]
    assert [name for name in files if name not in own][-2:] == ["read", "assert"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_assert_judges_what_was_read(role: Path) -> None:
    """A command there proves the outcome, as a container with GPUs does, and changes nothing."""
    tasks = tasks_of(role, "assert")
    assert list(unknown_modules(tasks, {*JUDGE, "ansible.builtin.command"})) == []
    assert any("ansible.builtin.assert" in task for task in tasks)
    commands = [task for task in tasks if "ansible.builtin.command" in task]
    assert [task["name"] for task in commands if task.get("changed_when") is not False] == []


def test_the_exceptions_are_roles() -> None:
    there = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
    assert {*OTHER_KIND, *OWN_PARTS, *OWN_PHASES} <= there
    assert len(there) == 17


def test_the_checks_see_what_is_wrong() -> None:
    changing = [{"name": "a", "ansible.builtin.apt": {}, "when": "x"}, {"name": "b", "ansible.builtin.debug": {}}]
    assert list(unknown_modules(changing, JUDGE)) == ["a"]
    nested = [{"name": "c", "block": [{"name": "d", "ddp.play.files": {}}]}]
    assert list(unknown_modules(nested, JUDGE)) == ["d"]
    assert included({IMPORT: "read.yml"}) == "read"
    assert condition({"when": ["a", "not ansible_check_mode"]}) == "a and not ansible_check_mode"
