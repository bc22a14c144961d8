"""Version of ddp-play and number of its formats in run.json, and the refusal of bundles with an unknown number."""

from __future__ import annotations

from typing import Any

from ddp_play import __version__
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import PROTOCOL, protocol_problem


def format_stamp() -> dict[str, Any]:
    """What each document and first frame says about its writer; the version is for people."""
    return {"protocol": PROTOCOL, "version": __version__}


def refuse_unknown_format(run_id: str, document: dict[str, Any]) -> None:
    """UsageError if the bundle of this run.json has a format that this version does not know. Nothing is changed."""
    if why := protocol_problem(document):
        raise UsageError(
            f"run {run_id} was {why}",
            hint=f"use the ddp-play that started it, on {document.get('controller') or 'its controller'}, or upgrade "
            "this one",
        )
