"""Mounts that role nfs_client has replaced or unmounted, and mounts again; which of them are not back."""

from __future__ import annotations

import shlex
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.filter import nfs_client
from ansible_collections.ddp.play.plugins.module_utils import mount_lines

# What to mount: mountpoint, source, fstype, options; `unit` if it is mounted at first use; `command` to do it by hand.
Row = Mapping[str, str]
ROW = "__nfs_client_row"  # loop variable of put-back.yml


def former(state: Mapping[str, Any], mount: nfs_client.Mount) -> List[Row]:
    """What was mounted where `mount` goes, as what to mount again: no entry if nothing was."""
    there = [row for row in nfs_client.mounted(state["commands"]) if row["target"] == mount["mountpoint"]]
    return [_former(row, "".join(nfs_client.active_automounts(state, [mount]))) for row in there[-1:]]


def _former(row: Mapping[str, str], unit: str) -> Row:
    path, source, fstype, options = row["target"], row["source"], row["fstype"], row["options"]
    by_hand = ["mount", "-t", fstype, "-o", options, source, path]
    command = shlex.join(["systemctl", "start", unit] if unit else by_hand)
    return {
        "mountpoint": path,
        "source": source,
        "fstype": fstype,
        "options": options,
        "unit": unit,
        "command": command,
    }


def given_back(lines: Sequence[str], state: Mapping[str, Any], decision: Mapping[str, Any]) -> List[Row]:
    """Lines that fstab has again, as what to mount again where this removal has unmounted: as `former`.

    Mounts by hand, because systemd reads the lines at the next boot or daemon-reload.
    """
    waiting = [mount for mount in decision["ours"] if nfs_client.active_automounts(state, [mount])]
    unmounted = {mount["mountpoint"] for mount in [*decision["mounted"], *waiting]}
    found: Dict[str, Row] = {}
    for line in map(mount_lines.parsed, lines):
        at_boot = "noauto" not in line.options or nfs_client.AUTOMOUNT in line.options
        if line.mountpoint in unmounted and at_boot and line.mountpoint not in found:
            row = {"mountpoint": line.mountpoint, "source": line.source, "fstype": line.fstype, "unit": ""}
            command = shlex.join(["mount", line.mountpoint])
            found[line.mountpoint] = {**row, "options": ",".join(line.options), "command": command}
    return list(found.values())


def lookups_back(rows: Sequence[Row]) -> Dict[str, List[str]]:
    """Read-only commands: use each mount point, and look for what is mounted there, which a wait for a use is not."""
    found = {}
    for path in (row["mountpoint"] for row in rows):
        found[f"probe {path}"] = ["stat", "--file-system", path]
        found[f"back {path}"] = ["findmnt", "--noheadings", "--types", "noautofs", "--mountpoint", path]
    return found


def not_back(state: Mapping[str, Any], rows: Sequence[Row], tried: Sequence[Mapping[str, Any]]) -> List[str]:
    """Commands for what is not mounted again, each with the reason. tried: results of mounting those without a unit."""
    reasons = {result[ROW]["mountpoint"]: result.get("msg", "") for result in tried if ROW in result}
    found = []
    for row in rows:
        if state["commands"][f"back {row['mountpoint']}"]["rc"] != 0:
            reason = " ".join(str(reasons.get(row["mountpoint"], "")).split())
            found.append(f"{row['command']} ({reason or 'no answer'})")
    return found


def said_back(missing: Sequence[str], rows: Sequence[Row]) -> str:
    """Sentence on what was mounted before, after a new mount has failed; empty if nothing was. missing: `not_back`."""
    paths = ", ".join(row["mountpoint"] for row in rows)
    if missing:
        return f"What was mounted on {paths} before is not mounted again: {'; '.join(missing)}"
    return f"What was mounted on {paths} before is mounted again, with the line of fstab unchanged." if rows else ""


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "nfs_client_former": former,
            "nfs_client_given_back": given_back,
            "nfs_client_lookups_back": lookups_back,
            "nfs_client_not_back": not_back,
            "nfs_client_said_back": said_back,
        }
