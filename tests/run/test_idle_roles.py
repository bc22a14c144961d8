"""GPU roles on a host in the wanted state: real ansible-playbook, in the order of playbooks/provision.yml."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.roles_gpu import fixture
from tests.run.ansible_playbook import run_playbook

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.runner

PLAYBOOK = """
- hosts: all
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  roles:
    - {role: ddp.play.rdma, vars: {rdma_verify: false}}
    - ddp.play.nvidia_driver
    - ddp.play.cuda_toolkit
    - ddp.play.nccl
    - ddp.play.nvidia_container_toolkit
  post_tasks:
    - ansible.builtin.import_role: {name: ddp.play.rdma, tasks_from: verify}
      vars: {__rdma_verified_later: true}
"""
# Nothing differs, so no role changes this machine; the container engine of this machine is not judged.
# Files that decide stand in the test's folder, not in /etc.
IDLE: dict[str, Any] = {
    "__rdma_packages": ["bash"],
    "__rdma_drifted": [],
    "nvidia_driver_torch_version": "",
    "nvidia_driver_verify": False,  # no driver answers on this machine
    "__nvidia_driver_to_install": False,
    "__nvidia_driver_drifted": [],
    "__nvidia_driver_stopped": [],
    "cuda_toolkit_install": True,
    "cuda_toolkit_verify": False,
    "__cuda_toolkit_pending": False,
    "__nccl_drifted": [],
    "__nvidia_container_toolkit_misfit": [],
    "__nvidia_container_toolkit_loose": [],
    "__nvidia_container_toolkit_source_stale": False,
    "__nvidia_container_toolkit_engine_runs": False,
    "nvidia_container_toolkit_mode": "legacy",
}
ON_THE_CONTROLLER = {"debug", "assert", "fail", "meta", "include_tasks", "validate_argument_spec"}
RDMA = "hardware | Read the RDMA hardware of the host"
DRIVER = "hardware | Read the GPUs and the driver of the host"
SYSTEM = "facts | Read the operating system of the host"


HOSTS = {
    "full": fixture.Hardware(loaded="580.178.04", hcas=("mlx5_0",)),
    "bare": fixture.Hardware(gpus=()),
}


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """By host, the names of the tasks that were not skipped and connect to it."""
    folder = tmp_path_factory.mktemp("idle")
    for name, hardware in HOSTS.items():
        fixture.write(folder / name, hardware)
    extra = IDLE | fixture.variables(f"{folder}/{{{{ inventory_hostname }}}}")
    (folder / "config.toml").write_text('[nvidia-container-runtime]\nmode = "legacy"\n')
    extra["__nvidia_container_toolkit_config_path"] = f"{folder}/config.toml"
    (folder / "site.yml").write_text(PLAYBOOK)
    code, tasks = run_playbook(folder, "-i", ",".join(HOSTS), "site.yml", "-e", json.dumps(extra))
    assert code == 0, tasks
    assert [task["task"]["name"] for task in tasks if any(row.get("changed") for row in task["hosts"].values())] == []
    return {name: list(connecting(tasks, name)) for name in HOSTS}


def connecting(tasks: Iterable[dict[str, Any]], host: str) -> Iterable[str]:
    for task in tasks:
        result = task["hosts"].get(host, {"skipped": True})
        if not result.get("skipped") and result["action"].rpartition(".")[2] not in ON_THE_CONTROLLER:
            yield task["task"]["name"].rpartition(" : ")[2]


def test_an_idle_host_is_read_once_by_each_role(read: dict[str, list[str]]) -> None:
    """The first role that needs GPUs or the operating system reads them; ports are read again after the driver."""
    assert read["full"] == [
        RDMA,
        SYSTEM,
        "read | Read packages, files and occupants of the host",
        DRIVER,
        "read | Read files, our exporter and occupants of the host",
        "read | Read the state of the compiler",
        "read | Read the state of settings and libraries",
        "read | Read the state of the toolkit and the engine",
        RDMA,
    ]


def test_a_host_without_the_hardware_is_read_for_hardware_only(read: dict[str, list[str]]) -> None:
    assert read["bare"] == [
        RDMA,
        DRIVER,
        SYSTEM,
        "read | Read the state of the compiler",
    ]
