"""Differences between a host's state, as ddp.play.host_state returns it, and the wanted packages, files and units."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence

# In every file that a role writes and no other program edits; and the suffix of the file that was there before.
OWN_MARK = "Managed by ddp-play"
KEPT = ".ddp-play.orig"


def missing_packages(state: Mapping[str, Any], wanted: Sequence[str]) -> List[str]:
    """Wanted packages that are not installed, in the order of `wanted`."""
    return [name for name in wanted if not state["packages"].get(name)]


def packages_not_of_version(state: Mapping[str, Any], wanted: Sequence[str], version: str) -> List[str]:
    """Wanted packages that are missing or of another version, whatever their revision after the hyphen."""
    return [name for name in wanted if not state["packages"].get(name, "").startswith(f"{version}-")]


def packages_not_held(state: Mapping[str, Any], wanted: Sequence[str]) -> List[str]:
    """Installed ones of the wanted packages that an upgrade of the host would change."""
    return [name for name in wanted if state["packages"].get(name) and name not in state["held"]]


def drifted_files(state: Mapping[str, Any], wanted: Sequence[Mapping[str, Any]]) -> List[str]:
    """Paths whose text, type or mode differs. wanted: entries as for ddp.play.files."""
    return [want["path"] for want in wanted if _differs(want, state["files"][want["path"]])]


def _differs(want: Mapping[str, Any], there: Mapping[str, Any]) -> bool:
    if want.get("state") == "absent":
        return bool(there["type"] != "absent")
    if want.get("state") == "directory":
        # A link to a directory counts as a directory; the mode of the link itself is meaningless.
        is_directory = there["type"] == "directory"
        return there["type"] not in ("directory", "link") or bool(
            is_directory and want.get("mode") and there["mode"] != want["mode"]
        )
    if want.get("recorded"):  # the site may have the same text with a mode of its own
        return bool(there["type"] == "absent" or there["content"] != want["content"])
    return bool(there.get("content") != want["content"] or there.get("mode") != want.get("mode", "0644"))


def file_faults(state: Mapping[str, Any], drifted: Sequence[str]) -> Dict[str, List[str]]:
    """Drifted paths by their fault, for `wrong`. drifted: as drifted_files returns them, all of them in the state."""
    gone = [path for path in drifted if state["files"][path]["type"] == "absent"]
    return {"files that are missing": gone, "files that differ": [path for path in drifted if path not in gone]}


def undone_files(state: Mapping[str, Any], paths: Sequence[str]) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that undo a role's files: the original returns, or nothing where there was none.

    A file without the roles' mark is the site's own and is not in the answer.
    """
    ours = [path for path in paths if OWN_MARK in state["files"][path]["content"]]
    return [{"path": path, "state": "restored", "original": path + KEPT} for path in ours]


def set_aside(paths: Sequence[str]) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that rename files of the site, which would stand in the way of a role's."""
    return [{"path": path, "state": "absent", "original": path + KEPT} for path in paths]


def put_back(found: Iterable[str]) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that give files which were set aside their names back.

    found: paths of a directory; a renamed file whose own name is among them again is not in the answer.
    """
    there = set(found)
    names = sorted(path[: -len(KEPT)] for path in there if path.endswith(KEPT))
    return [{"path": name, "state": "restored", "original": name + KEPT} for name in names if name not in there]


def stopped_units(state: Mapping[str, Any], wanted: Sequence[str]) -> List[str]:
    """Wanted units that do not run, or that systemd would not start at boot."""
    return [name for name in wanted if not _runs(state["units"][name])]


def inactive_units(state: Mapping[str, Any]) -> List[str]:
    """Units that were read and do not run."""
    return [name for name, unit in state["units"].items() if unit["active"] != "active"]


def existing_files(state: Mapping[str, Any], paths: Sequence[str]) -> List[str]:
    """The paths that are there, whatever their type, in the order of `paths`."""
    return [path for path in paths if state["files"][path]["type"] != "absent"]


def left(parts: Mapping[str, Sequence[str]]) -> str:
    """What a removal leaves on a host, as one text. parts: names by their title; a title without names is not said.

    Names are sorted: package managers list them in an order of their own.
    """
    said = [f"{title}: {' '.join(sorted(map(str, names)))}" for title, names in parts.items() if names]
    return ", ".join(said) or "nothing"


def wrong(parts: Mapping[str, Sequence[str]]) -> str:
    """What is not as wanted, as one text. parts: names by their title, in order; a title without names is not said."""
    return "; ".join(f"{title}: {', '.join(map(str, names))}" for title, names in parts.items() if names)


def occupants(reasons: Sequence[str], users: Sequence[Mapping[str, Any]], devices: str) -> List[str]:
    """Why the host is busy: the reasons of its state, and processes (name, pid) with one of the `devices` open."""
    held = ", ".join(f"{user['name']} pid {user['pid']}" for user in users)
    return [*reasons, *([f"{devices} are in use by {held}"] if held else [])]


def text_of(state: Mapping[str, Any], paths: Sequence[str]) -> List[str]:
    """Text of files without blanks around it, in the order of `paths`; empty for a file that is absent."""
    return [str(state["files"][path]["content"]).strip() for path in paths]


def settled(state: Mapping[str, Any]) -> bool:
    """Whether the reading found nothing to do or to say; false for a reading that was skipped.

    Ansible's main process evaluates this in the condition of a meta task, and so loads the collection's filters once.
    Otherwise the process of every task that uses one loads all of them, which takes twice as long as the task.
    """
    return bool(state.get("settled", False))


def settled_everywhere(hostvars: Mapping[str, Any], hosts: Sequence[str]) -> bool:
    """Whether ddp.play.settled_roles found no role on any of the hosts that has anything to do or to say.

    False without hosts, and if one of them was not read.
    """
    unsettled = [hostvars[host].get("ansible_facts", {}).get("ddp_unsettled_roles") for host in hosts]
    return bool(unsettled) and all(roles is not None and not roles for roles in unsettled)


def _runs(unit: Mapping[str, Any]) -> bool:
    return bool(unit["active"] == "active" and unit["enabled"] == "enabled")


class FilterModule:
    """The filters by the names that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "host_state_missing": missing_packages,
            "host_state_not_of_version": packages_not_of_version,
            "host_state_not_held": packages_not_held,
            "host_state_drifted": drifted_files,
            "host_state_file_faults": file_faults,
            "host_state_undone": undone_files,
            "host_state_set_aside": set_aside,
            "host_state_put_back": put_back,
            "host_state_stopped": stopped_units,
            "host_state_inactive": inactive_units,
            "host_state_existing": existing_files,
            "host_state_occupants": occupants,
            "host_state_text": text_of,
            "host_state_left": left,
            "host_state_wrong": wrong,
            "host_state_settled": settled,
            "settled_everywhere": settled_everywhere,
        }
