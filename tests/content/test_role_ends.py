"""On a host in the wanted state a role ends after its reading, and what it skips then has nothing to say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.content.role_files import read, tasks_in
from tests.content.role_tasks import JUDGE, ROLES, SAYS, condition, included, modules, names, tasks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Phases that end nowhere on a host in the wanted state.
NOT_ENDED = {
    "nvidia_driver": {"preflight", "verify"},  # CUDA proves at the end that the driver works
    "rdma": {"verify"},  # it judges the ports, which its reading of the hardware has
    "slurm": {"verify"},  # a job on all nodes proves at the end that they work together
}
# Variables of conditions that `settled` need not judge; no role with `waits` waits if nothing is pending.
NOT_JUDGED = {
    "nfs_server": {"__nfs_server_accepted"},  # differences that are not settled
    "slurm": {"__slurm_decoded", "__slurm_proven", "__slurm_silent", "__slurm_pair"},  # answers of its proof
    "nvidia_container_toolkit": {"__nvidia_container_toolkit_described"},  # main.yml computes it
}


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
