"""Names of `--limit` that an inventory does not have: Ansible leaves them out and goes on with the others. Pure.

Ansible's patterns: names, groups, wildcards and `~REGEX`, joined by `,` or `:`, with `&` and `!` before them and
`[0]` or `[0:3]` behind them; `@FILE` has one a line.
"""

from __future__ import annotations

import difflib
import fnmatch
import ipaddress
import re
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

# Which Ansible knows without an inventory, and groups of ddp-play, which an inventory need not have.
ALWAYS_KNOWN = ("all", "localhost", "127.0.0.1", "::1", "ranks", "spares")
WITH_PORT = re.compile(r"(\[[^\]]+\]|[^\s:\[\]]+):\d+")
# What stands between colons; those in brackets, as in gpu[0:3], separate nothing.
BETWEEN_COLONS = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")
SUBSCRIPT = re.compile(r"(.+)\[(?:-?\d+|\d+[:-]\d*)\]")
NAMES_SHOWN = 8
# How a refusal begins.
ABOUT_LIMIT = "--limit: "


def limit_terms(limit: str) -> list[str]:
    """The single patterns of a limit, as Ansible separates them: by commas, else by colons that are in no address."""
    by_commas = "," in limit or _is_address(limit)
    parts = limit.split(",") if by_commas else BETWEEN_COLONS.findall(limit)
    return [part.strip() for part in parts if part.strip()]


def _is_address(text: str) -> bool:
    if WITH_PORT.fullmatch(text):
        return True
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def unknown_names(
    limit: str, groups: Collection[str], hosts: Collection[str], lines_of: Callable[[str], Iterable[str]]
) -> list[str]:
    """The patterns of a limit that match no group and no host. `lines_of`: the lines of a file, for `@FILE`."""
    terms: list[str] = []
    for term in limit_terms(limit):
        terms += (line.strip() for line in lines_of(term[1:])) if term.startswith("@") else (term,)
    names = (*groups, *hosts, *ALWAYS_KNOWN)
    bare = [term.lstrip("!&") for term in terms]
    return [term for term in dict.fromkeys(bare) if term and not _matches_any(term, names)]


def _matches_any(term: str, names: Collection[str]) -> bool:
    if term.startswith("~"):
        try:
            pattern = re.compile(term[1:])
        except re.error:
            return True  # Ansible says what is wrong with it
        return any(pattern.match(name) for name in names)
    if found := SUBSCRIPT.fullmatch(term):
        term = found[1]
    return term in names or any(fnmatch.fnmatchcase(name, term) for name in names)


def refuse_unknown_names(
    limit: str, groups: Collection[str], hosts: Collection[str], lines_of: Callable[[str], Iterable[str]]
) -> None:
    """Raise UsageError for a limit with a name that the inventory does not have, with the names that are near."""
    unknown = unknown_names(limit, groups, hosts, lines_of)
    if unknown:
        what = "is no host and no group" if len(unknown) == 1 else "are no hosts and no groups"
        message = f"{ABOUT_LIMIT}{short_list(map(repr, unknown), NAMES_SHOWN)} {what} of the inventory"
        raise UsageError(message, hint=_near(unknown, groups, hosts))


def _near(unknown: list[str], groups: Collection[str], hosts: Collection[str]) -> str:
    names = {name.lower(): name for name in (*hosts, *groups)}
    found = [
        names[near]
        for term in unknown
        for near in difflib.get_close_matches(term.lstrip("~").lower(), names, n=2, cutoff=0.6)
    ]
    if found:
        return f"did you mean {' or '.join(dict.fromkeys(found[:NAMES_SHOWN]))}?"
    own = [name for name in groups if name not in ("all", "ungrouped")]
    shown = f"groups: {short_list(own, NAMES_SHOWN)}; " if own else ""
    return f"{shown}hosts: {short_list(hosts, NAMES_SHOWN) or 'none'}"
