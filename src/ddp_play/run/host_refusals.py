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
from ddp_play.planning.refused_hosts import Refused, joined
from ddp_play.run.image_remedy import judged

if TYPE_CHECKING:
    from ddp_play.run.link import Link

# A host of which nothing came for longer than this is silent: it sends a heartbeat per second.
QUIET_S = 1.5
ERRORS: dict[str, type[DdpPlayError]] = {
    "busy": Busy,
    "slots": SlotsTaken,
    "name_taken": NameTaken,
    "internal": InternalError,
    "usage": UsageError,
    "version": UnknownVersion,
}


def raise_refusal(failed: list[Link], kind: str) -> None:
    """Raise the class of the last refusal that waiting does not mend, else of the last; do nothing for an empty list.

    HostNotReady if none refused. The message has every host, the hint the remedy of every refusal.

    `kind`: the request that they did not carry out.
    """
    if not failed:
        return
    message, remedy = joined(_refused(link, kind) for link in failed)
    kinds = [ERRORS.get(link.refused.get("error", ""), HostNotReady) for link in failed if link.refused is not None]
    # Waiting does not help a run that another host refuses for good.
    lasting = [error for error in kinds if not issubclass(error, Busy)]
    error = (lasting or kinds or [HostNotReady])[-1]
    raise error(message, hint=judged(remedy), hosts=tuple(link.name for link in failed))


def _refused(link: Link, kind: str) -> Refused:
    if link.refused is not None:
        return Refused(link.name, str(link.refused["message"]), str(link.refused.get("hint") or ""))
    why = link.channel.broken if link.channel is not None else "no channel"
    since = f", and its last message came {link.silent_s():.0f} s ago" if link.silent_s() >= QUIET_S else ""
    return Refused(link.name, why or f"no answer to {kind}{since}")


def raise_not_opened(waiting: list[Link], failure: type[HostNotReady]) -> None:
    """Raise the refusals of hosts that answered `open` with one, and what broke other channels; else `failure`.

    Do nothing for an empty list.
    """
    if not waiting:
        return
    if any(link.refused for link in waiting):
        raise_refusal([link for link in waiting if link.refused or (link.channel and link.channel.broken)], "open")
    rows = [f"{link.name}: {(link.channel.broken if link.channel else '') or 'no answer'}" for link in waiting]
    raise failure(
        "no channel to\n" + "\n".join(rows),
        hint="check the connection to these hosts; for a run that has started, ddp-play attach tries again",
        hosts=tuple(link.name for link in waiting),
    )
