"""Ranks whose output a view shows: `0`, `0,3`, `all` or `none`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.paths import read_json
from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import ranks_by_host

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

WORDS = ("all", "none")


def check_form(text: str) -> None:
    """UsageError for a text that names no ranks."""
    if text not in WORDS and not all(part.isascii() and part.isdigit() for part in text.split(",")):
        raise UsageError(f"--ranks is {text!r}", hint="give all, none, or numbers with commas: 0,3")


def unknown_ranks(text: str, paths: RunPaths) -> str:
    """Which of these ranks the run does not have, in words with the ranks that it has; empty without any or a plan."""
    plan = read_json(paths.plan)
    if "kinds" not in plan or text in WORDS:  # none yet, or of an earlier version
        return ""
    known = {rank for ranks in ranks_by_host(plan).values() for rank in ranks}
    missing = [part for part in text.split(",") if int(part) not in known]
    return f"--ranks: run {paths.run_id} has ranks 0 to {max(known)}, not {', '.join(missing)}" if missing else ""


def refuse_unknown_ranks(text: str, paths: RunPaths) -> None:
    """UsageError for ranks that the run does not have."""
    check_form(text)
    if words := unknown_ranks(text, paths):
        raise UsageError(words, hint="--ranks all shows all of them")
