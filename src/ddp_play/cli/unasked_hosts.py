"""Error of a verb that asks hosts, and got no answer of some of them: what it showed of the others is not all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping


def refuse_unasked(problems: Mapping[str, str]) -> None:
    """Raise HostNotReady if a host could not be asked. `problems`: why, by host; a remedy may follow the reason."""
    if problems:
        rows = "\n".join(f"{host} could not be asked: {why}" for host, why in sorted(problems.items()))
        remedy = "" if "  -> " in rows else "ddp-play doctor -i INVENTORY looks at each host"
        raise HostNotReady(rows, hint=remedy, hosts=tuple(sorted(problems)))
