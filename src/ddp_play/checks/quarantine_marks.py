"""The marks of a quarantine on the hosts, written and removed through one short playbook."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.plugin_variables import MARK_ORDERS_ENV
from ddp_play.bundle.controller_user import user_name
from ddp_play.provisioning.rolling import without_limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.planning.host_facts import HostFacts

NO_ANSWER = "the host gave no answer"
BECOME = "--become"
CHECKED = {"state": "checked"}  # order: the host is not new any more


@dataclasses.dataclass(frozen=True, slots=True)
class Marker:
    """Who is asked, and how: `ask_fleet` has the same three."""

    request: PlaybookRequest
    passwords: Passwords
    runner: PlaybookRunner

    @property
    def becomes(self) -> bool:
        """Whether it becomes root on the hosts because the user asked for that."""
        return BECOME in self.request.options

    def place_of(self, host: HostFacts) -> dict[str, str]:
        """Where a mark belongs: in the list of root, for everybody, or in the own one of the user of the host."""
        return {} if self.becomes or host.user.uid == 0 else {"directory": host.state_dir}

    def write(self, orders: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Carry out options of the module `host_quarantine` by host. Returns its answers; a failed one is a `problem`.

        Raises what Ansible says if it could not read the inventory.
        """
        answers: dict[str, dict[str, Any]] = {}
        if not orders:
            return answers

        def on_event(event: dict[str, Any]) -> None:
            data = event.get("event_data") or {}
            result = data.get("res") or {}
            if event.get("event") == "runner_on_ok" and "kept" in result:
                answers[data["host"]] = {"changed": bool(result.get("changed")), "kept": str(result["kept"])}
            elif event.get("event") in ("runner_on_failed", "runner_on_unreachable"):
                answers[data["host"]] = {"problem": str(result.get("msg", "failed")).strip()}

        with TemporaryDirectory(prefix="ddp-play-marks-") as scratch:
            orders_file = Path(scratch, "orders.json")
            orders_file.write_text(json.dumps(orders), encoding="utf-8")
            request = dataclasses.replace(
                self.request,
                playbook=str(collection_root() / "playbooks" / "quarantine.yml"),
                options=(*without_limit(self.request.options), "--limit", ",".join(orders)),
                environment={**self.request.environment, MARK_ORDERS_ENV: str(orders_file)},
            )
            private_dir = Path(scratch, "ansible")
            done = self.runner.run(request, private_dir=private_dir, passwords=self.passwords, on_event=on_event)
        if not answers and (error := done.error("run ansible -m ping on the inventory")) is not None:
            raise error
        return {host: answers.get(host, {"problem": NO_ANSWER}) for host in orders}


def origin() -> dict[str, str]:
    """Who decides it, and where."""
    return {"by": user_name(), "controller": socket.gethostname()}


def as_login(request: PlaybookRequest) -> PlaybookRequest:
    """The request as the user of the login: limits and directories are then those that ranks have."""
    return dataclasses.replace(request, options=tuple(option for option in request.options if option != BECOME))
