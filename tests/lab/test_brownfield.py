"""Hosts with a history, provisioned by every role and taken out again: nothing of theirs is disturbed, changed or left."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, lab_of

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
HOSTS = ("h1", "h2")
ROLES = ("base_os", "nccl", "docker_engine", "nfs_server", "monitoring")
TOUCHED = ("base_os", "docker_engine", "nfs_server", "monitoring")
VARIABLES: dict[str, Any] = {
    # The container of h1 has live-restore, so an operator would not wait for it.
    **{f"{role}_touch_busy_hosts": True for role in TOUCHED},
    "base_os_firewall": True,
    "base_os_firewall_subnets": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
    "base_os_ntp_servers": ["ntp.example.org"],
    "docker_engine_users": ["ops"],
    "docker_engine_ca_certs": {"registry.example:5000": "certificate\n"},
    "nccl_enabled": True,
    "nccl_conf": {"NCCL_IB_TIMEOUT": "22"},
    "nfs_server_exports": [
        {"path": "/srv/site", "clients": ["10.0.0.0/8"]},
        {"path": "/srv/new/runs", "clients": ["10.0.0.0/8"]},
    ],
    "nfs_server_threads": 16,
}
# Private names of roles, which only the command line may set: the lab's kernel has no NFS server.
HIDDEN = {
    "__nfs_server_kernel": True,
    "__nfs_server_to_install": [],
    "__nfs_server_threads": "16",
}
SITE = {
    "all": {
        "vars": VARIABLES,
        "children": {"monitoring": {"hosts": {"h1": None, "h2": None}}, "nfs_server": {"hosts": {"h1": None}}},
    }
}


def listing(lab: Lab, host: str) -> dict[str, str]:
    """Everything there is on a host, as `SECTION KEY` and value."""
    found = json.loads(lab.on(host, "python3 /opt/host_listing.py", user="root"))
    return {f"{section} {key}": value for section, rows in found.items() for key, value in rows.items()}
