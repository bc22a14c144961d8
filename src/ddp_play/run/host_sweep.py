"""One verb of the program on every host of an inventory, through one short playbook: `runs`, `clean`, `facts`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.error_output import PING
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.left_workers import end_workers
from ddp_play.ansible.plugin_variables import SWEEP_ORDERS_ENV, SWEEP_VERB_ENV
from ddp_play.ansible.runner import PlaybookStatus
from ddp_play.errors import UsageError
from ddp_play.run.host_frames import HostFrameError, checked_answer

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner


def sweep_hosts(
    request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, verb: str, orders: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Answers by host to one verb of the program; a host without one has its `problem`. `orders`: by host, or for all.

    UsageError if the inventory has no hosts. Raises the error of the playbook if no host answered and none has a
    problem of its own, if the command line is wrong, and after an interruption: what some hosts have answered by then
    is not the answer.
    """
    answers: dict[str, dict[str, Any]] = {}

    def on_event(event: dict[str, Any]) -> None:
        data = event.get("event_data") or {}
        result = (data.get("res") or {}).get("answer")
        if event.get("event") == "runner_on_ok" and result is not None:
            answers[data["host"]] = _checked(verb, result)
        elif event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
            answers[data["host"]] = {"problem": str((data.get("res") or {}).get("msg", "failed"))}

    with TemporaryDirectory(prefix="ddp-play-sweep-") as scratch:
        orders_file = Path(scratch, "orders.json")
        orders_file.write_text(json.dumps(orders), encoding="utf-8")
        sweep = dataclasses.replace(
            request,
            playbook=str(collection_root() / "playbooks" / "sweep.yml"),
            environment={SWEEP_VERB_ENV: verb, SWEEP_ORDERS_ENV: str(orders_file)},
        )
        outcome = runner.run(sweep, private_dir=Path(scratch, "ansible"), passwords=passwords, on_event=on_event)
        if outcome.status is PlaybookStatus.CANCELED:
            end_workers(Path(scratch, "ansible"))
    error = outcome.error(remedy=PING)
    wrong = outcome.status is PlaybookStatus.CANCELED or any(row.usage[0] for row in outcome.failures)
    if error is not None and (wrong or not answers):
        raise error
    if not answers:  # nothing found on no host is not the answer to a question about hosts
        raise UsageError("the inventory has no hosts", hint="ansible-inventory --graph shows it")
    return answers


def _checked(verb: str, answer: Any) -> dict[str, Any]:
    try:
        return checked_answer(verb, answer)
    except HostFrameError as error:
        return {"problem": f"it sent {error}; check which program runs on the host"}
