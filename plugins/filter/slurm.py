"""Computations of role slurm: units and packages of a host's parts, why a host is busy, the state of a node."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK

MAX_NAMED = 5
# States, and flags after "+", of a node that takes jobs.
USABLE = frozenset(["IDLE", "MIXED", "ALLOCATED", "COMPLETING", "RESERVED", "CLOUD"])
UNREACHED = frozenset(["UNKNOWN", "NOT_RESPONDING", "DOWN"])
PROLOG_FLAGS = "prologflags"


def parts(host: str, groups: Mapping[str, Sequence[str]]) -> List[str]:
    """Parts of the cluster that a host has, in the order of `groups` (hosts by part)."""
    return [part for part, hosts in groups.items() if host in hosts]


def of_parts(table: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> List[str]:
    """Packages or units of all hosts and of these parts, each once. table: by part, and `all`."""
    return list(dict.fromkeys(name for part in ("all", *wanted) for name in table.get(part, ())))


def busy(reasons: Sequence[str], jobs: Sequence[str]) -> List[str]:
    """Why Slurm must not be restarted: what runs on the host, and jobs of the cluster."""
    shown = ", ".join(jobs[:MAX_NAMED]) + (f" and {len(jobs) - MAX_NAMED} more" if len(jobs) > MAX_NAMED else "")
    return [*reasons, *([f"Slurm runs {len(jobs)} job{'s' if len(jobs) > 1 else ''}: {shown}"] if jobs else [])]


def node_states(answer: Mapping[str, Any]) -> List[str]:
    """State and flags of a node, from `scontrol show node --oneliner`; empty if the controller knows no such node."""
    found = re.search(r"\bState=(\S+)", answer["stdout"]) if answer["rc"] == 0 else None
    states = found[1].split("+") if found else []
    silent = any(state.endswith("*") for state in states)  # how releases before 22.05 say it
    return [state.rstrip("*$~#!%@^-") for state in states] + (["NOT_RESPONDING"] if silent else [])


def node_problem(answer: Mapping[str, Any]) -> str:
    """Why a node takes no jobs, with its state and reason; empty if it takes them."""
    states = node_states(answer)
    if states and set(states) <= USABLE:
        return ""
    if not states:
        lines = (answer.get("stderr") or answer["stdout"] or "no answer").strip().splitlines()
        return f"the controller does not answer for it ({lines[0]})"
    reason = re.search(r"\bReason=(.*?)(?: \[|$| \w+=)", answer["stdout"])
    return f"its state is {'+'.join(states)}" + (f" ({reason[1].strip()})" if reason else "")


def is_reached(answer: Mapping[str, Any]) -> bool:
    """Whether a node has registered with the controller since the start of both, drained or not."""
    states = node_states(answer)
    return bool(states) and not set(states) & UNREACHED


def lacks_key(state: Mapping[str, Any], wanted: str, path: str, theirs: bool) -> bool:
    """Whether the host has another MUNGE key than the cluster, or one of ours that more than its owner may read.

    wanted: SHA-256 of the key; empty while the controller has none.
    """
    found = state["commands"]["key"]["stdout"].split()[:1]
    return found != [wanted] or (not theirs and state["files"][path]["mode"] != "0400")


def stale(state: Mapping[str, Any], units: Sequence[str], paths: Sequence[str]) -> List[str]:
    """Units that run since before one of these files was written."""
    written = [state["files"][path]["mtime"] for path in paths if state["files"][path]["type"] == "file"]
    started = {unit: state["units"][unit]["started"] for unit in units}
    return [unit for unit, time in started.items() if time > 0 and any(time < mtime for mtime in written)]


def own_units(state: Mapping[str, Any], units: Sequence[str], conf: str) -> List[str]:
    """Units that systemd knows and that have a configuration of this role; none with a site's own."""
    ours = OWN_MARK in state["files"][conf]["content"]
    return [unit for unit in units if ours and state["units"][unit]["load"] == "loaded"]


def addresses(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> List[str]:
    """Addresses of hosts for the others, each once: slurm_address, or else how Ansible reaches the host."""
    return list(dict.fromkeys(address_of(hostvars[name]) for name in hosts))


def address_of(host: Mapping[str, Any]) -> str:
    """Address of a host for the others. host: its variables."""
    return str(host.get("slurm_address") or host.get("ansible_host") or host["inventory_hostname"])


def free_nodes(answer: str) -> List[str]:
    """Nodes that are idle and neither drained nor silent, from `sinfo --Node --format='%N %T'`; each once."""
    rows = [line.split() for line in answer.splitlines()]
    return list(dict.fromkeys(row[0] for row in rows if row[1:] == ["idle"]))


def prolog_flags(extra: Mapping[str, Any]) -> str:
    """PrologFlags of a cluster with control groups: those of the site's settings, and Contain."""
    given = [str(value) for key, value in extra.items() if key.lower() == PROLOG_FLAGS]
    flags = [flag.strip() for flag in ",".join(given).split(",") if flag.strip()]
    return ",".join(["Contain", *(flag for flag in dict.fromkeys(flags) if flag.lower() != "contain")])


def without_prolog_flags(extra: Mapping[str, Any]) -> Dict[str, Any]:
    """The site's other settings. Slurm has no cases in names."""
    return {key: value for key, value in extra.items() if key.lower() != PROLOG_FLAGS}


def wrong_hosts(answer: str, wanted: Sequence[str]) -> List[str]:
    """Nodes that did not answer to `srun hostname`, or answered under another name."""
    names = [line.partition(".")[0].strip() for line in answer.splitlines() if line.strip()]
    return sorted(set(wanted) ^ set(names))


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "slurm_parts": parts,
            "slurm_of_parts": of_parts,
            "slurm_busy": busy,
            "slurm_node_problem": node_problem,
            "slurm_is_reached": is_reached,
            "slurm_lacks_key": lacks_key,
            "slurm_stale": stale,
            "slurm_own_units": own_units,
            "slurm_addresses": addresses,
            "slurm_free_nodes": free_nodes,
            "slurm_wrong_hosts": wrong_hosts,
            "slurm_prolog_flags": prolog_flags,
            "slurm_without_prolog_flags": without_prolog_flags,
        }
