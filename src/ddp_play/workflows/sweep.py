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
    """What the hosts said, and what of it may go.

    `me`: whose leftovers; empty means everybody's. `run`: only this run's, and even while it lives.
    """

    runs: list[dict[str, Any]] = field(default_factory=list)
    containers: list[dict[str, Any]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    me: str = ""
    run: str = ""

    @property
    def living(self) -> set[str]:
        """Runs that a guard or a controller still carries on somewhere: on other hosts too they are left alone."""
        return {row["run"] for row in self.runs if row["guard_alive"] or row.get("attended")}

    def why_not(self, row: dict[str, Any]) -> str:
        """Why this run directory or container stays; empty when it may go."""
        if self.run:
            return "" if row["run"] == self.run else "another run"
        if row["run"] in self.living:
            return "running"
        if self.me and row.get("owner") not in ("", self.me):
            return f"of {row['owner']}"
        return ""

    @property
    def removable(self) -> list[dict[str, Any]]:
        """Run directories that may go."""
        return [row for row in self.runs if not self.why_not(row)]

    @property
    def removable_containers(self) -> list[dict[str, Any]]:
        """Containers that may go."""
        return [row for row in self.containers if not self.why_not(row)]

    @property
    def others(self) -> list[tuple[dict[str, Any], str]]:
        """What is left alone, and why."""
        rows = [(row, self.why_not(row)) for row in (*self.runs, *self.containers)]
        return [(row, why) for row, why in rows if why and why != "another run"]

    @property
    def empty(self) -> bool:
        """Is there nothing to remove?"""
        return not (self.removable or self.removable_containers)


def ask_hosts(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, *, me: str = "", run: str = ""
) -> Leftovers:
    """One execution per host."""
    found = Leftovers(me=me, run=run)
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
    for kind, key, rows in (
        ("paths", "path", found.removable),
        ("containers", "id", found.removable_containers),
    ):
        for row in rows:
            nothing: dict[str, Any] = {"paths": [], "containers": [], "living_too": bool(found.run)}
            orders.setdefault(row["inventory_host"], nothing)[kind].append(row[key])
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
