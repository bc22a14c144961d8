"""Version of ddp-play and number of its formats in run.json, and the refusal of bundles with an unknown number."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from ddp_play.errors import UsageError
from ddp_play.guard.protocol import PROTOCOL, protocol_problem


@cache
def ddp_play_version() -> str:
    """Version of this ddp-play, for people; PROTOCOL decides what it can read."""
    try:
        return version("ddp-play")
    except PackageNotFoundError:
        return "unknown"


def format_stamp() -> dict[str, Any]:
    """What each document and first frame says about its writer."""
    return {"protocol": PROTOCOL, "version": ddp_play_version()}


def refuse_unknown_format(run_id: str, document: dict[str, Any]) -> None:
    """UsageError if the bundle of this run.json has a format that this version does not know. Nothing is changed."""
    if why := protocol_problem(document):
        raise UsageError(
            f"run {run_id} was {why}",
            hint=f"use the ddp-play that started it, on {document.get('controller') or 'its controller'}, or upgrade "
            "this one",
        )
