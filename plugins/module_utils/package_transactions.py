"""What a simulated transaction of apt or dnf would do, read from its output in the C locale."""

from __future__ import annotations

import re
from typing import Callable, Dict, List, NamedTuple

# dnf 4 prints a table: a section, then a line of one blank and the name for each package. A name that is too long for
# its column stands on a line alone, and the rest of its row on the next one, after more blanks (dnf/cli/output.py).
DNF_SECTIONS = {
    "Installing": "added",
    "Installing dependencies": "added",
    "Installing weak dependencies": "added",
    "Installing group/module packages": "added",
    "Installing group packages": "added",
    "Upgrading": "upgraded",
    "Downgrading": "downgraded",
    "Removing": "removed",
    "Removing dependent packages": "removed",
    "Removing unused dependencies": "removed",
}
DNF_PACKAGE = re.compile(r"^ (\S+)(?:\s|$)")
DNF_REPLACED = re.compile(r"^ {5}replacing {2}(\S+)\.[^.\s]+ ")


class Transaction(NamedTuple):
    """Names of packages by what happens to them; `added` are in the order of the package manager."""

    added: List[str]
    upgraded: List[str]
    downgraded: List[str]
    removed: List[str]


def read_apt(text: str) -> Transaction:
    """From `apt-get --simulate`. `Inst NAME (VERSION ...)` is new, `Inst NAME [OLD] (NEW ...)` another version.

    apt refuses a downgrade by itself, so `downgraded` is empty.
    """
    added = re.findall(r"(?m)^Inst (\S+) \(", text)
    upgraded = re.findall(r"(?m)^Inst (\S+) \[", text)
    removed = {name.partition(":")[0] for name in re.findall(r"(?m)^(?:Remv|Purg) (\S+)", text)}
    return Transaction(added, upgraded, [], sorted(removed))


def read_dnf(text: str) -> Transaction:
    """From `dnf --assumeno` (dnf 4). An obsolete package that another one replaces counts as removed."""
    found: Dict[str, List[str]] = {kind: [] for kind in Transaction._fields}
    kind = ""
    for line in text.splitlines():
        replaced, package = DNF_REPLACED.match(line), DNF_PACKAGE.match(line)
        if replaced:
            found["removed"].append(replaced[1])
        elif package and kind:
            found[kind].append(package[1])
        elif not line.startswith(" "):
            kind = DNF_SECTIONS.get(line.rstrip(":"), "")
    return Transaction(found["added"], found["upgraded"], found["downgraded"], sorted(set(found["removed"])))


def not_erased(names: List[str], erases: Callable[[List[str]], bool]) -> List[str]:
    """Those of the names that other packages need. erases: whether rpm would erase exactly these packages.

    rpm names the capabilities that would be missed, not the packages, so the others are found by trying.
    """
    going: List[str] = []
    left, grown = list(names), True
    while left and grown:
        if erases(going + left):
            return []
        before = len(going)
        for name in left:
            going += [name] if erases([*going, name]) else []
        grown = len(going) > before
        left = [name for name in left if name not in going]
    return left
