"""The inventory and the job of the machines: what a site would write."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from .image import RANK_ARCHIVE, RANK_IMAGE, TORCH
from .machines import CONTROLLER, RANKS, STORAGE

if TYPE_CHECKING:
    from .machines import Cluster

ROOT = Path(__file__).resolve().parents[2]
SHARED = "/srv/ddp"
SUBNET = "10.77.0.0/24"
REBOOT_UNITS = ["docker.service", "chrony.service"]


def write_inventory(cluster: Cluster) -> Path:
    """One inventory for all verbs: two machines run ranks, a third one serves the shared directory.

    A server that runs ranks as well could not have them meet in a file: it does not share its clients' locks.
    """
    path = cluster.directory / "inventory" / "hosts.yml"
    path.parent.mkdir(exist_ok=True)
    hosts = {machine.name: {"ansible_host": "127.0.0.1", "ansible_port": machine.port} for machine in cluster.machines}
    ranks = {"hosts": {name: hosts[name] for name in RANKS}, "vars": {"host_reboot_units": REBOOT_UNITS}}
    groups = {"ranks": ranks, "nfs_server": {"hosts": {STORAGE: hosts[STORAGE]}}}
    path.write_text(yaml.safe_dump({"all": {"vars": _variables(cluster), "children": groups}}, sort_keys=False))
    return path


def _variables(cluster: Cluster) -> dict[str, Any]:
    return {
        "ansible_user": "ops",
        "ansible_ssh_private_key_file": str(cluster.key),
        "ansible_ssh_common_args": shlex.join(cluster.ssh_options),
        "ansible_python_interpreter": "/usr/bin/python3",
        "base_os_ntp_servers": [f"{CONTROLLER} port {cluster.time_port}"],
        "base_os_max_clock_offset_ms": 500,  # an emulated clock on a busy machine
        "docker_engine_source": "distribution",
        "docker_engine_users": ["ops"],
        "image_distribution_images": [{"name": RANK_IMAGE, "archive": RANK_ARCHIVE}],
        "image_distribution_archive_on_hosts": True,
        "nfs_server_exports": [{"path": SHARED, "clients": [SUBNET], "owner": "ops", "group": "ops"}],
        "nfs_server_threads": 8,
        "nfs_client_mounts": [{"server": cluster.machine(STORAGE).address, "path": SHARED, "mountpoint": SHARED}],
        "nfs_client_writer": "ops",
        "rdma_expected_hcas": 0,
        "ddp_shared_dir": SHARED,
    }


def write_job(cluster: Cluster, name: str, **variables: Any) -> Path:
    """A playbook with one job in the rank image, over the torch of the machines."""
    wanted = {
        "image": RANK_IMAGE,
        "image_pull": "never",
        "mounts": [f"{TORCH}:{TORCH}:ro"],
        "env": {"PYTHONPATH": TORCH, "OMP_NUM_THREADS": "1"},
        **variables,
    }
    role = {"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{key}": value for key, value in wanted.items()}}
    path = cluster.directory / f"{name}.yml"
    play = {"name": name, "hosts": "ranks", "gather_facts": False, "roles": [role]}
    path.write_text(yaml.safe_dump([play], sort_keys=False))
    return path
