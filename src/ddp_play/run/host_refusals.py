"""Errors for hosts that refused a request or did not answer it: one error with the problems of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import (
    Busy,
    DdpPlayError,
    HostNotReady,
    InternalError,
    NameTaken,
    SlotsTaken,
    UnknownVersion,
    UsageError,
)

if TYPE_CHECKING:
    from ddp_play.run.link import Link

ERRORS: dict[str, type[DdpPlayError]] = {
    "busy": Busy,
    "slots": SlotsTaken,
    "name_taken": NameTaken,
    "internal": InternalError,
    "usage": UsageError,
    "version": UnknownVersion,
}


def raise_refusal(failed: list[Link], kind: str) -> None:
    """Raise the class of the last refusal, HostNotReady if none refused; do nothing for an empty list.

    `kind`: the request that they did not carry out.
    """
    if not failed:
        return
    rows, hints, error = [], [], HostNotReady
    names = tuple(link.name for link in failed)
    for link in failed:
        if link.refused is not None:
            rows.append(f"{link.name}: {link.refused['message']}")
            hints.append(link.refused.get("hint") or "")
            error = ERRORS.get(link.refused.get("error", ""), error)  # type: ignore[assignment]
        else:
            why = link.channel.broken if link.channel is not None else "no channel"
            rows.append(f"{link.name}: {why or f'no answer to {kind}'}")
    raise error("\n".join(rows), hint=next((hint for hint in hints if hint), ""), hosts=names)


def raise_not_opened(waiting: list[Link], failure: type[HostNotReady]) -> None:
    """Raise the refusals of hosts that answered `open` with one; else `failure` with what broke each channel."""
    raise_refusal([link for link in waiting if link.refused], "open")
    rows = [f"{link.name}: {(link.channel.broken if link.channel else '') or 'no answer'}" for link in waiting]
    raise failure(
        "no channel to\n" + "\n".join(rows),
        hint="check the connection to these hosts; for a run that has started, ddp-play attach tries again",
        hosts=tuple(link.name for link in waiting),
    )
