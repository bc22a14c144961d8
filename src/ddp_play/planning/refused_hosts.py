"""One message and one remedy for several refused hosts: all of them are named, each with its own reason. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused host. HOSTS in the remedy stands for all hosts that have this reason."""

    host: str
    why: str
    remedy: str = ""


def joined(refused: Iterable[Refused]) -> tuple[str, str]:
    """(message, remedy). Hosts with the same reason share a line; where remedies differ, each names its hosts."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for row in refused:
        by_reason.setdefault((row.why, _of_all(row)), []).append(row.host)
    by_remedy: dict[str, list[str]] = {}
    for (_, remedy), names in by_reason.items():
        if remedy:
            by_remedy.setdefault(remedy, []).extend(names)
    message = "\n".join(f"{short_list(names, NAMES_SHOWN)}: {why}" for (why, _), names in by_reason.items())
    remedies = {remedy.replace("HOSTS", ",".join(names)): names for remedy, names in by_remedy.items()}
    if len(remedies) < 2:
        return message, "".join(remedies)
    return message, "\n".join(f"{short_list(names, NAMES_SHOWN)}: {remedy}" for remedy, names in remedies.items())


def _of_all(row: Refused) -> str:
    """The remedy with HOSTS for the host's own name; in a command (`ssh h1`) the name stays."""
    return re.sub(rf"\b(on|of) {re.escape(row.host)}(?=[\s:;,]|$)", r"\1 HOSTS", row.remedy)


def refuse_all(refused: Iterable[Refused]) -> None:
    """HostNotReady with all of them; nothing happens if there are none."""
    rows = tuple(refused)
    if rows:
        message, remedy = joined(rows)
        raise HostNotReady(message, hint=remedy, hosts=tuple(dict.fromkeys(row.host for row in rows)))
