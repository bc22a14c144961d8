"""Number of tasks that provision and verify have for a host on which nothing is to do."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ddp_play.provisioning.host_role_table import ACTIONS_WITHOUT_EFFECT
from tests.content.role_files import read
from tests.roles_gpu import fixture
from tests.run import test_idle_roles as gpu_roles
from tests.run.ansible_playbook import run_playbook
from tests.run.test_settled_roles import DECISION, READING

pytestmark = pytest.mark.runner

ROOT = Path(__file__).resolve().parents[2]
# Not run, because no driver answers on this machine: the hardware again with the driver's answers, and an assertion.
DRIVER_PROOF = ROOT / "roles/nvidia_driver/tasks/assert.yml"
MAX_TASKS = 18
# Roles that have nothing to do while this list is empty.
NAMED_BY_THE_SITE = {
    "cluster_users": "cluster_users_accounts",
    "scratch": "scratch_filesystems",
    "nfs_client": "nfs_client_mounts",
    "image_distribution": "image_distribution_images",
}
# These roles read this machine, whatever its state; the given state makes each end after its reading.
ENDING = ("base_os", "docker_engine", "python_env", "image_distribution", "monitoring")
SITE: dict[str, Any] = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "ansible_become": False,
    **gpu_roles.IDLE,
    **{f"__{role}_state": {"settled": True} for role in ENDING},
    "__nvidia_driver_changes": [],
    "__nvidia_driver_source_stale": False,
    "__rdma_problems": [],
    "__nvidia_container_toolkit_state": {"settled": True},
    "cuda_toolkit_install": False,
    "python_env_packages": ["standin==1.0"],
    "image_distribution_source": "pull",
    "image_distribution_images": [{"name": "registry.example.com/train:1", "digest": "sha256:" + "0" * 64}],
}


def play(folder: Path, verb: str, hardware: fixture.Hardware, *options: str) -> list[dict[str, Any]]:
    """Tasks of one run of a playbook, as Ansible's JSON callback reports them."""
    fixture.write(folder, hardware)
    extra = json.dumps(SITE | fixture.variables(folder))
    groups: dict[str, Any] = {name: {"hosts": {"h1": {}}} for name in ("ranks", "python_env", "monitoring")}
    (folder / "hosts.json").write_text(json.dumps(groups))
    words = ["-i", "hosts.json", str(ROOT / f"playbooks/{verb}.yml"), "-e", extra]
    code, tasks = run_playbook(folder, *words, *options)
    assert code == 0, tasks
    return tasks


def counted(task: dict[str, Any]) -> bool:
    """As the report of `ddp-play provision` counts, which knows the full name of an action too."""
    result = task["hosts"].get("h1", {"skipped": True})
    return not result.get("skipped") and result["action"].rpartition(".")[2] not in ACTIONS_WITHOUT_EFFECT


@pytest.mark.long
def test_tasks_of_a_gpu_host_on_which_nothing_is_to_do(tmp_path: Path) -> None:
    """cluster_users, scratch, cuda_toolkit and nfs_client, which a site turns on, add one each."""
    found = Counter(
        task["task"]["name"].partition(" : ")[0]
        for task in play(tmp_path, "provision", gpu_roles.HOSTS["full"])
        if counted(task)
    )
    by_role = {role.removeprefix("ddp.play."): number for role, number in found.items()}
    assert by_role.pop(DECISION) == 1  # for all hosts together
    by_role["nvidia_driver"] += len(read(DRIVER_PROOF))
    by_role["docker_engine"] += not Path("/run/systemd/system").exists()  # then it ends before its reading
    assert by_role == {
        READING: 1,  # with the facts
        "base_os": 1,
        "rdma": 4,  # its hardware again after the driver, and an assertion
        "nvidia_driver": 4,
        "nccl": 1,
        "docker_engine": 2,
        "nvidia_container_toolkit": 1,
        "python_env": 1,
        "image_distribution": 2,
        "monitoring": 1,
    }
    assert sum(by_role.values()) <= MAX_TASKS


def test_a_verification_reads_nothing_for_roles_that_have_nothing_to_do(tmp_path: Path) -> None:
    """Neither the host's mounts nor its images if the site names none; the reasons are in the result of the reading."""
    empty: dict[str, Any] = {variable: [] for variable in NAMED_BY_THE_SITE.values()}
    options = ("--tags", ",".join(NAMED_BY_THE_SITE), "-e", json.dumps(empty))
    tasks = play(tmp_path, "verify", fixture.Hardware(gpus=()), *options)
    reading, decision = [task["hosts"]["h1"] for task in tasks if "h1" in task["hosts"]]
    assert decision["ansible_facts"] == {"ddp_all_settled": True}
    assert reading["settled_roles"] == {role: f"{variable} is empty" for role, variable in NAMED_BY_THE_SITE.items()}
