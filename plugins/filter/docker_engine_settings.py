"""Settings of role docker_engine: its keys in daemon.json, limits that a host can provide, files read at its start."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible.errors import AnsibleFilterError

# Without CAP_SYS_RESOURCE, as in most containers, no process can raise a limit above that of process 1.
CAP_SYS_RESOURCE = 1 << 24
LIMIT = re.compile(r"^(Max [a-z ]+[a-z]) +\S+ +(\S+)", re.MULTILINE)
BOUNDING_SET = re.compile(r"^CapBnd:\s*([0-9a-f]+)", re.MULTILINE)
LIMIT_NAMES = {
    "core": "Max core file size",
    "memlock": "Max locked memory",
    "nofile": "Max open files",
    "nproc": "Max processes",
    "stack": "Max stack size",
}
UNLIMITED = "unlimited"
# Log drivers that write files, which the engine can rotate.
FILE_LOGS = ("local", "json-file")


def hard_limits(state: Mapping[str, Any]) -> Dict[str, str]:
    """Hard limits of process 1 by their names in /proc/1/limits; empty if limits can be raised."""
    found = BOUNDING_SET.search(state["files"]["/proc/1/status"]["content"])
    if not found:
        raise AnsibleFilterError("docker_engine: /proc/1/status has no line CapBnd")
    if int(found[1], 16) & CAP_SYS_RESOURCE:
        return {}
    return dict(LIMIT.findall(state["files"]["/proc/1/limits"]["content"]))


def ulimits(wanted: Mapping[str, Any], hard: Mapping[str, str]) -> Dict[str, Dict[str, Any]]:
    """Value of default-ulimits: nofile: 131072 gives nofile: {Name: nofile, Soft: 131072, Hard: 131072}.

    A value above the host's hard limit is lowered to it, because otherwise no container would start.
    """
    found = {}
    for name, value in wanted.items():
        limit = _possible(int(value), hard.get(LIMIT_NAMES.get(name, name), UNLIMITED))
        found[name] = {"Name": name, "Soft": limit, "Hard": limit}
    return found


def _possible(value: int, most: str) -> int:
    return value if most == UNLIMITED or 0 <= value <= int(most) else int(most)


def lowered(limits: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Any]) -> List[str]:
    """Limits that the host cannot provide, one clause each. limits: the value of default-ulimits."""
    return [
        f"{name} {limit['Hard']} instead of {wanted[name]}"
        for name, limit in limits.items()
        if limit["Hard"] != int(wanted[name])
    ]


def daemon_part(settings: Mapping[str, Any], extra: Mapping[str, Any]) -> Dict[str, Any]:
    """The role's keys in daemon.json. Empty settings set no key; `extra` is merged over the others."""
    found: Dict[str, Any] = {key: settings[key] for key in ("log-driver", "live-restore")}
    for key in ("data-root", "default-ulimits", "registry-mirrors", "insecure-registries"):
        if settings[key]:
            found[key] = settings[key]
    if settings["log-driver"] in FILE_LOGS:
        found["log-opts"] = {key: str(value) for key, value in settings["log-opts"].items()}
    if settings["cdi"]:
        found["features"] = {"cdi": True}
    if settings["nvidia-runtime"]:
        found["runtimes"] = {"nvidia": {"path": "nvidia-container-runtime", "args": []}}
    return _merged(found, extra)


def _merged(settings: Mapping[str, Any], extra: Mapping[str, Any]) -> Dict[str, Any]:
    """`extra` over `settings`, key by key. No deep copy: that of an Ansible value copies all variables of the host."""
    found = dict(settings)
    for key, value in extra.items():
        both = isinstance(value, Mapping) and isinstance(found.get(key), Mapping)
        found[key] = _merged(found[key], value) if both else value
    return found


def unread(state: Mapping[str, Any], paths: Sequence[str]) -> bool:
    """Whether the engine runs since before one of these files was written, so that it has not read the file."""
    started = state["units"]["docker.service"]["started"]
    files = [state["files"][path] for path in paths]
    return started > 0 and any(file["type"] == "file" and started < file["mtime"] for file in files)


class FilterModule:
    """Registers the filters as ddp.play.docker_engine_*."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name; Ansible adds the collection's name."""
        return {
            "docker_engine_hard_limits": hard_limits,
            "docker_engine_ulimits": ulimits,
            "docker_engine_lowered": lowered,
            "docker_engine_daemon_part": daemon_part,
            "docker_engine_unread": unread,
        }
