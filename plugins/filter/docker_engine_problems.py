"""Role docker_engine: what is wrong with the host's engine, each a clause; nothing that follows from another one."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping

from ansible_collections.ddp.play.plugins.filter import host_state
from ansible_collections.ddp.play.plugins.filter.docker_engine import upstream_version

UNIT, SOCKET = "docker.service", "docker.socket"  # the first one needs the second one, where that is there


def answer(info: Mapping[str, Any]) -> Dict[str, Any]:
    """What the engine said to `docker info`, as JSON; empty if it did not answer.

    info: rc, stdout and stderr. The client of an engine that does not run prints its own part, and may end with 0.
    """
    try:
        found = json.loads(info["stdout"]) if info["rc"] == 0 else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) and found.get("ServerVersion") else {}


def silence(info: Mapping[str, Any]) -> str:
    """Why `docker info` has no answer of an engine; empty if it has one."""
    if answer(info):
        return ""
    try:
        errors = json.loads(info["stdout"]).get("ServerErrors") or []
    except (ValueError, AttributeError):
        errors = []
    said = "; ".join(errors) or str(info["stderr"]).strip() or f"exit code {info['rc']}"
    return f"the engine does not answer ({said})"


def masked(state: Mapping[str, Any]) -> bool:
    """Whether nothing can start the engine until somebody unmasks its units."""
    return any("masked" in (unit["load"], unit["enabled"]) for unit in (state["units"][UNIT], state["units"][SOCKET]))


def problems(state: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    """All that is not as provisioned.

    state: as ddp.play.host_state returns it. wanted: drifted (paths), unread (the engine runs with an older
    configuration), users (without access), to_install, to_hold and missing (packages), repository (its path, if it
    is not as provisioned), daemon (of daemon.json), data_root and version (empty: any).
    """
    return [*_of_unit(state), *_of_answer(state, wanted), *_of_host(state, wanted)]


def _of_unit(state: Mapping[str, Any]) -> List[str]:
    unit = state["units"][UNIT]
    if masked(state):
        return [f"{UNIT} or {SOCKET} is masked, so that nothing can start the engine, and it is {unit['active']}"]
    if unit["load"] != "loaded":
        return [f"there is no {UNIT}"]
    found = [] if unit["active"] == "active" else [f"{UNIT} is {unit['active']}"]
    return found + ([] if unit["enabled"] == "enabled" else [f"{UNIT} is {unit['enabled']}, so no boot starts it"])


def _of_answer(state: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    if state["units"][UNIT]["active"] != "active":
        return []
    info = state["commands"]["info"]
    if silence(info):
        return [silence(info)]
    engine, daemon = answer(info), wanted["daemon"]
    version = upstream_version(str(engine["ServerVersion"]))
    rows = [
        ("data-root", engine.get("DockerRootDir"), wanted["data_root"] or engine.get("DockerRootDir")),
        ("log-driver", engine.get("LoggingDriver"), daemon["log-driver"]),
        ("live-restore", engine.get("LiveRestoreEnabled"), daemon["live-restore"]),
        ("version", version, wanted["version"] or version),
    ]
    found = [f"its {name} is {has}, wanted {want}" for name, has, want in rows if has != want]
    return found + ([f"{UNIT} has not read its configuration since that changed"] if wanted["unread"] else [])


def _of_host(state: Mapping[str, Any], wanted: Mapping[str, Any]) -> List[str]:
    rows = [
        *host_state.file_faults(state, wanted["drifted"]).items(),
        ("users without access", wanted["users"]),
        ("packages that are missing", [name for name in wanted["to_install"] if name not in wanted["missing"]]),
        ("repository or key that differs", [wanted["repository"]] if wanted["repository"] else []),
        ("packages not on hold", wanted["to_hold"]),
        ("packages missing while AppArmor is on", wanted["missing"]),
    ]
    return [f"{name}: {', '.join(found)}" for name, found in rows if found]


class FilterModule:
    """Registers the filters as ddp.play.docker_engine_*."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name; Ansible adds the collection's name."""
        return {
            "docker_engine_answer": answer,
            "docker_engine_masked": masked,
            "docker_engine_problems": problems,
        }
