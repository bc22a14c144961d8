"""Configuration of a Slurm cluster from the facts of its hosts, computed once for all hosts of a play."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible_collections.ddp.play.plugins.filter.slurm import address_of
from ansible_collections.ddp.play.plugins.plugin_utils import slurm_cluster
from ansible_collections.ddp.play.plugins.plugin_utils.slurm_cluster import Cluster, Member

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS: dict[str, dict[str, Any]] = {
    "controllers": {"type": "list", "elements": "str", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "logins": {"type": "list", "elements": "str", "default": []},
    "accounting": {"type": "list", "elements": "str", "default": []},
    "key": {"type": "str", "default": "", "no_log": True},
    "replace_conf": {"type": "bool", "default": False},
    "replace_key": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):
    """Runs once; delegated to the controller, whose facts it reads even if that host is outside --limit."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return lines of nodes and GPUs, the reasons against them, and the digest of the MUNGE key."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _, want = self.validate_argument_spec(OPTIONS)
        found = self._execute_module("ddp.play.slurm_facts", module_args={}, task_vars=variables)
        if found.get("failed") or found.get("unreachable"):
            return {**result, **found}
        controller = found["ansible_facts"]["ddp_slurm"]
        return {**result, "changed": False, **slurm_cluster.result(cluster_of(want, variables, controller))}


def cluster_of(want: Mapping[str, Any], variables: Mapping[str, Any], controller: Mapping[str, Any]) -> Cluster:
    """The cluster of these options; `controller`: facts of the host that has the configuration."""
    present = tuple(variables.get("ansible_play_hosts_all", ()))
    parts = dict.fromkeys((*want["controllers"], *want["nodes"], *want["logins"], *want["accounting"]))
    hostvars = variables["hostvars"]
    members = {name: member for name in parts if (member := member_of(hostvars[name])) is not None}
    lead = want["controllers"][0] if want["controllers"] else ""
    if lead and lead not in members:
        members[lead] = Member(address_of(hostvars[lead]), controller)
    return Cluster(
        controllers=tuple(want["controllers"]),
        nodes=tuple(want["nodes"]),
        accounting=tuple(want["accounting"]),
        addresses={name: address_of(hostvars[name]) for name in want["accounting"]},
        members=members,
        present=present,
        conf=controller["conf"],
        gres=controller["gres"],
        jobs=tuple(controller["jobs"]),
        key=digest(want["key"]) or controller["key"],
        given_key=bool(want["key"]),
        replace_conf=want["replace_conf"],
        replace_key=want["replace_key"],
    )


def member_of(host: Mapping[str, Any]) -> Member | None:
    """A host that this play has read; None for another."""
    facts = host.get("ansible_facts", {}).get("ddp_slurm")
    return None if facts is None else Member(address_of(host), facts)


def digest(key: str) -> str:
    """SHA-256 of a key in base64; empty without one or for another text, which the key's own module refuses."""
    try:
        return hashlib.sha256(base64.b64decode("".join(key.split()), validate=True)).hexdigest() if key else ""
    except (binascii.Error, ValueError):
        return ""
