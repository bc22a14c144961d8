"""Every provisioning role has one skeleton: the same task files with the same names, and phases in the same order.

CONTRIBUTING.md ("Task files of a role") describes it. What differs is named here, with the reason.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import read, tasks_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[2]
OTHER_KIND = {
    "ddp_job": "plans and runs a job; it leaves no state on a host that could be verified or removed",
    "host_reboot": "an action on request: drain, reboot, open; a host is not wanted to be in a rebooted state",
}
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir() and path.name not in OTHER_KIND)

REQUIRED = {"main", "facts", "preflight", "read", "install", "assert", "verify", "remove"}
OPTIONAL = {"converge", "configure", "service", "hardware"}
# Parts of a phase that got too long for one file. A part that several roles have has the same name in all.
PARTS = {"skip", "busy", "refuse", "repository", "packages-apt", "packages-dnf"}
OWN_PARTS = {
    "base_os": {"peer"},
    "docker_engine": {"users"},
    "nfs_client": {"mount"},
    "nvidia_driver": {"fabric", "load", "reboot"},
}
IMAGES = "hosts depend on each other: the registry has an image before the others pull it, and each image is a step"
BUILDER = "one host may build for all: those that do not build only read again after it"
IMAGE_PHASES = "Preflight,Authority,Registry,Report the images to add,Load,Push,Pull,Read the state again,Verify"
# Roles without converge.yml, and the phases of their main.yml.
OWN_PHASES = {
    "image_distribution": (
        IMAGE_PHASES.split(","),
        {"archives_controller", "archives_host", "authority", "forwarded", "load", "pull", "push", "registry"},
        IMAGES,
    ),
    "python_env": (["Preflight", "Install", "Read the state again", "Verify"], set(), BUILDER),
}
# Phases that end nowhere on a host in the wanted state.
NOT_ENDED = {
    "nvidia_driver": {"preflight", "verify"},  # CUDA proves at the end that the driver works
    "rdma": {"verify"},  # it judges the ports, which its reading of the hardware has
}
# Variables of conditions that `settled` need not judge; no role with `waits` waits if nothing is pending.
NOT_JUDGED = {
    "nfs_server": {"__nfs_server_accepted"},  # differences that are not settled
    "nvidia_container_toolkit": {"__nvidia_container_toolkit_described"},  # main.yml computes it
}
CONVERGED = [role for role in ROLES if role.name not in OWN_PHASES]

IMPORT, INCLUDE = "ansible.builtin.import_tasks", "ansible.builtin.include_tasks"
SAYS = "ansible.builtin.debug"
SAY = {SAYS, "ansible.builtin.meta"}
JUDGE = {"ansible.builtin.assert", "ansible.builtin.fail"}
FACTS = {"ansible.builtin.setup", "ddp.play.gpu_facts", "ddp.play.rdma_facts"}
KEYWORDS = {"name", "when", "vars", "register", "notify", "loop", "loop_control", "environment", "block", "rescue"} | {
    "changed_when", "failed_when", "no_log", "delegate_to", "run_once", "tags", "become", "check_mode",
}  # fmt: skip
UNIT_MODULES = {"ansible.builtin.systemd_service", "ddp.play.unit_start"}
CONVERGE_ORDER = ["Record", "Report", "Install", "Configure", "Service", "Read"]


def tasks_of(role: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(role / "tasks" / f"{name}.yml")
    return found


def modules(task: dict[str, Any]) -> set[str]:
    return set(task) - KEYWORDS


def included(task: dict[str, Any]) -> str:
    """The file that a task imports or includes, without its ending; empty for another task."""
    return str(task.get(IMPORT) or task.get(INCLUDE) or "").removesuffix(".yml")


def condition(task: dict[str, Any]) -> str:
    when = task.get("when", "")
    return " and ".join(when) if isinstance(when, list) else str(when)


def names(role: Path) -> set[str]:
    return {path.stem for path in (role / "tasks").glob("*.yml")}


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


def ends_when_settled(role: Path, name: str) -> list[int]:
    """Places of the tasks of this file that end the role on a host in the wanted state."""
    return [number for number, task in enumerate(tasks_of(role, name)) if ends_settled(task, role.name)]


def ends_settled(task: dict[str, Any], role: str) -> bool:
    ends = task.get("ansible.builtin.meta") == "end_role"
    return ends and condition(task) == f"__{role}_state | ddp.play.host_state_settled"


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_role_ends_after_its_reading_on_a_host_in_the_wanted_state(role: Path) -> None:
    for phase in sorted({"preflight", "verify"} - NOT_ENDED.get(role.name, set())):
        name = "main" if (role.name, phase) == ("docker_engine", "preflight") else phase
        (place,) = ends_when_settled(role, name)
        assert included(tasks_of(role, name)[place - 1]) == ("preflight" if name == "main" else "read")


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_a_removal_does_not_end_on_a_host_in_the_wanted_state(role: Path) -> None:
    files = {included(task) for task in tasks_of(role, "remove")}
    (task,) = tasks_of(role, "read")
    removes = f"not __{role.name}_removes" in task["ddp.play.host_state"]["settled"]
    assert removes or not [name for name in files & names(role) if ends_when_settled(role, name)]


def words(role: str, text: str) -> set[str]:
    """Variables of the role in a text."""
    return set(re.findall(rf"\b(?:__)?{role}_\w+", text))


def reached(role: Path, start: set[str]) -> set[str]:
    """These variables and those that they are computed from."""
    variables = {name: words(role.name, str(value)) for name, value in read(role / "vars/main.yml").items()}
    found, new = set(start), set(start)
    while new:
        new = {name for old in new for name in variables.get(old, ())} - found
        found |= new
    return found


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_settled_judges_all_that_the_role_asserts_and_says(role: Path) -> None:
    """Also what skipped tasks would refuse or report: each variable of their conditions is behind `settled`."""
    (task,) = tasks_of(role, "read")
    judged = reached(role, words(role.name, str([task["ddp.play.host_state"]["settled"], task.get("when")])))
    judged |= {f"__{role.name}_waits"} | NOT_JUDGED.get(role.name, set())
    for task in after_the_reading(role):
        asserted = str(task.get("ansible.builtin.assert", {}).get("that", ""))
        assert words(role.name, f"{asserted} {condition(task)}") - judged == set(), task["name"]


def after_the_reading(role: Path) -> Iterator[dict[str, Any]]:
    """Tasks that refuse, assert or report, which a host in the wanted state does not reach."""
    for name in sorted(names(role) & {"preflight", "refuse", "assert"}):
        tasks = tasks_of(role, name)
        reads = [number for number, task in enumerate(tasks) if included(task) == "read"] or [-1]
        yield from (task for task in tasks_in(tasks[reads[0] + 1 :]) if modules(task) & {*JUDGE, SAYS})


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
    assert files[-2:] == ["read", "assert"]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_assert_judges_what_was_read(role: Path) -> None:
    """A command there proves the outcome, as a container with GPUs does, and changes nothing."""
    tasks = tasks_of(role, "assert")
    assert list(unknown_modules(tasks, {*JUDGE, "ansible.builtin.command"})) == []
    assert any("ansible.builtin.assert" in task for task in tasks)
    commands = [task for task in tasks if "ansible.builtin.command" in task]
    assert [task["name"] for task in commands if task.get("changed_when") is not False] == []


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


def settings(tasks: Iterable[dict[str, Any]], wanted: set[str]) -> Iterator[dict[str, Any]]:
    """Options of the tasks with one of these modules."""
    for task in tasks:
        yield from (task[module] for module in wanted & set(task))


def test_the_exceptions_are_roles() -> None:
    there = {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}
    assert {*OTHER_KIND, *OWN_PARTS, *OWN_PHASES} <= there
    assert len(there) == 16


def test_the_checks_see_what_is_wrong() -> None:
    changing = [{"name": "a", "ansible.builtin.apt": {}, "when": "x"}, {"name": "b", "ansible.builtin.debug": {}}]
    assert list(unknown_modules(changing, JUDGE)) == ["a"]
    nested = [{"name": "c", "block": [{"name": "d", "ddp.play.files": {}}]}]
    assert list(unknown_modules(nested, JUDGE)) == ["d"]
    assert included({IMPORT: "read.yml"}) == "read"
    assert condition({"when": ["a", "not ansible_check_mode"]}) == "a and not ansible_check_mode"
