"""Asking hosts what they have of ours, and taking away what no living guard owns."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ddp_play.collection import collection_root

if TYPE_CHECKING:
    from ddp_play.playbook import Passwords, PlaybookRequest, PlaybookRunner


@dataclass
class Leftovers:
    """What the hosts said."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    containers: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def removable(self) -> list[dict[str, Any]]:
        """Run directories whose guard is dead or done."""
        return [row for row in self.runs if not row["guard_alive"]]

    @property
    def empty(self) -> bool:
        """Is there nothing to remove?"""
        return not (self.removable or self.containers)


def ask_hosts(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner) -> Leftovers:
    """One execution per host."""
    found = Leftovers()
    for host, answer in _on_all(request, passwords, runner, "runs", {}).items():
        if "problem" in answer:
            found.problems[host] = answer["problem"]
            continue
        found.runs += [{**row, "inventory_host": host} for row in answer["runs"]]
        found.containers += [{**row, "inventory_host": host} for row in answer["containers"]]
    return found


def remove_leftovers(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, found: Leftovers
) -> list[str]:
    """Remove what was listed, by exact path and id; what is left, in words."""
    orders: dict[str, Any] = {}
    for row in found.removable:
        orders.setdefault(row["inventory_host"], {"paths": [], "containers": []})["paths"].append(row["path"])
    for row in found.containers:
        orders.setdefault(row["inventory_host"], {"paths": [], "containers": []})["containers"].append(row["id"])
    answers = _on_all(request, passwords, runner, "clean", orders)
    return [
        f"{host}: {text}"
        for host, answer in answers.items()
        for text in ([answer["problem"]] if "problem" in answer else answer["left"])
    ]


def _on_all(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, verb: str, orders: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Run one verb of the program on every host of the inventory; answers by host."""
    answers: dict[str, dict[str, Any]] = {}

    def heard(event: dict[str, Any]) -> None:
        data = event.get("event_data") or {}
        result = (data.get("res") or {}).get("answer")
        if event.get("event") == "runner_on_ok" and result is not None:
            answers[data["host"]] = result
        elif event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
            answers[data["host"]] = {"problem": str((data.get("res") or {}).get("msg", "failed"))}

    with TemporaryDirectory(prefix="ddp-play-sweep-") as scratch:
        orders_file = Path(scratch, "orders.json")
        orders_file.write_text(json.dumps(orders), encoding="utf-8")
        asking = dataclasses.replace(
            request,
            playbook=str(collection_root() / "playbooks" / "sweep.yml"),
            environment={"DDP_PLAY_SWEEP_VERB": verb, "DDP_PLAY_SWEEP_ORDERS": str(orders_file)},
        )
        outcome = runner.run(asking, private_dir=Path(scratch, "ansible"), passwords=passwords, on_event=heard)
    if not answers and (error := outcome.error("run ansible -m ping on the inventory")) is not None:
        raise error
    return answers
