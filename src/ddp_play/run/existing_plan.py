"""Plan of an existing run, or one that `ddp-play plan --json` printed into a file."""

from __future__ import annotations

from pathlib import Path

from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_lookup import find
from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import Plan, plan_from_json


def existing_plan(source: str) -> Plan:
    """The plan in this file or of this run. UsageError if there is none."""
    path = Path(source) if Path(source).is_file() else find(source).paths.plan
    document = read_json(path)
    if "hosts" not in document:
        raise UsageError(f"{path} has no plan", hint="ddp-play plan PLAYBOOK -i INVENTORY --json prints one")
    try:
        return plan_from_json(document)
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} is not a plan of this version ({type(error).__name__}: {error})",
            hint="ddp-play plan PLAYBOOK -i INVENTORY --json prints one",
        ) from error
