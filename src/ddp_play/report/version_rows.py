"""Versions of what a run used, on the controller, on the hosts and in the ranks; and hardware that hosts named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.report.run_attempts import RunStory

FACTS = ("os", "kernel", "cpus", "memory_mib")


def versions(story: RunStory) -> dict[str, Any]:
    """`controller`: program -> version. `hosts`: name -> value of each. `differing`: names in which hosts differ."""
    document = story.run.document
    facts = read_json(story.run.paths.fleet).get("facts") or {}
    known = document.get("host_versions") or {}
    hosts = {
        str(host): _of_host(known.get(host) or {}, facts.get(host) or {})
        for host in dict.fromkeys([*(document.get("hosts") or ()), *known])
    }
    hosts = {host: values for host, values in hosts.items() if values}
    torch = read_json(story.run.paths.result(0)).get("torch")
    if isinstance(torch, str):
        for values in hosts.values():
            values.setdefault("torch", torch)
    names = sorted({name for values in hosts.values() for name in values})
    differing = [name for name in names if len({values.get(name, "") for values in hosts.values()}) > 1]
    controller = {str(name): str(version) for name, version in (document.get("versions") or {}).items()}
    return {"controller": controller, "hosts": hosts, "differing": differing}


def _of_host(known: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    found = {name: _text(value) for name, value in known.items()}
    found |= {name: _text(facts.get(name)) for name in FACTS}
    python = facts.get("rank_python")
    if isinstance(python, dict):
        found |= {name: _text(python.get(name)) for name in ("torch", "mpi4py")}
    apptainer = facts.get("apptainer")
    if isinstance(apptainer, dict):
        found["apptainer"] = f"{_text(apptainer.get('name'))} {_text(apptainer.get('version'))}".strip()
    return {name: text for name, text in found.items() if text}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(item)}" for name, item in value.items())
    return "" if value is None else str(value)
