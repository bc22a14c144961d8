"""Which hosts a host looks at before the start: all of a few, else the head and its two neighbors. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW = 8


def peers_of(name: str, hosts: Sequence[str]) -> list[str]:
    """The others that a host looks at; the head, which is the first, looks at all.

    Each pair of neighbors looks at each other. So what is wrong with one host is seen by several, also among many.
    """
    at = hosts.index(name)
    if at == 0 or len(hosts) <= FEW:
        return [other for other in hosts if other != name]
    near = {hosts[0], hosts[at - 1], hosts[(at + 1) % len(hosts)]}
    return [other for other in hosts if other in near]
