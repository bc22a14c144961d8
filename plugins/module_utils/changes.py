"""Changes of a host as the modules return them: rows of kind, subject and owner, under the key `ddp_changes`."""

from __future__ import annotations

from typing import Dict, Sequence

KEY = "ddp_changes"
ADD, CHANGE, RESTART, REMOVE, REBOOT = "add", "change", "restart", "remove", "reboot"
NEW, OURS, THEIRS = "new", "ours", "theirs"  # not there before; made by ddp-play; anything else
Change = Dict[str, str]


def change(kind: str, what: str, whose: str) -> Change:
    """One row: what happens to which file, package, unit or setting, and who made it."""
    return {"kind": kind, "what": what, "whose": whose}


def unit_change(name: str, load: str, active: str, restarts: bool) -> Change:
    """Row for a unit that is started or restarted; `load` and `active` are systemd's states before."""
    if load == "not-found":
        return change(ADD, "unit " + name, NEW)
    whose = OURS if name.startswith("ddp-") else THEIRS
    if restarts and active == "active":
        return change(RESTART, "unit " + name, whose)
    return change(CHANGE, "unit " + name + " (enable, start)", whose)


def package_changes(
    added: Sequence[str], removed: Sequence[str], upgraded: Sequence[str] = (), own: Sequence[str] = ()
) -> "list[Change]":
    """Rows for packages; `own`: names of packages that ddp-play installed."""
    rows = [change(REMOVE, "package " + name, OURS if name in own else THEIRS) for name in removed]
    rows += [change(CHANGE, "package " + name, OURS if name in own else THEIRS) for name in upgraded]
    return rows + [change(ADD, "package " + name, NEW) for name in added]
