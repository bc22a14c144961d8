"""The fleet of `ddp-play check -i`, asked through one short playbook."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.error_output import PING
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.left_workers import end_workers
from ddp_play.ansible.plugin_variables import CHECK_SCOPE_ENV
from ddp_play.ansible.runner import PlaybookStatus
from ddp_play.checks import burn_in_progress
from ddp_play.checks.fleet import BURN_IN, Fleet, fleet_from_json
from ddp_play.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.checks.check_scope import CheckScope


def ask_fleet(
    request: PlaybookRequest,
    passwords: Passwords,
    runner: PlaybookRunner,
    *,
    scope: CheckScope,
    say: Callable[[str], None] | None = None,
) -> Fleet:
    """What all hosts answered to what is asked. Raises what Ansible says if it could not read the inventory.

    `say` gets a line for each round of a burn-in. What one that did not come to its end has found so far counts.
    """
    found: dict[str, Any] = {}

    def on_event(event: dict[str, Any]) -> None:
        result = (event.get("event_data") or {}).get("res") or {}
        if event.get("event") == "runner_on_ok" and "checked" in result:
            found.update(result["checked"])

    with TemporaryDirectory(prefix="ddp-play-check-") as scratch:
        if scope.level == BURN_IN:
            scope = dataclasses.replace(scope, progress=scratch)
        check = dataclasses.replace(
            request,
            playbook=str(collection_root() / "playbooks" / "check.yml"),
            environment={**request.environment, CHECK_SCOPE_ENV: scope.to_text()},
        )
        with burn_in_progress.shown(Path(scratch), say if scope.progress else None):
            outcome = runner.run(check, private_dir=Path(scratch, "ansible"), passwords=passwords, on_event=on_event)
        if outcome.status is PlaybookStatus.CANCELED:
            end_workers(Path(scratch, "ansible"))  # the one that asks the hosts would go on
            found = found or burn_in_progress.kept(Path(scratch))
        error = outcome.error(remedy=PING)
        if not found and error is not None:
            found = burn_in_progress.kept(Path(scratch), f"the check failed ({error.message[:300]})")
    if not found:
        raise error or InternalError(
            "the hosts were not asked", hint="ansible-inventory --list shows the hosts of the inventory"
        )
    return dataclasses.replace(fleet_from_json(found), terms=scope.terms)
