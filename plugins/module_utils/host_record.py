"""Record on the host of what the roles found and changed, so that deprovision can restore it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

from ansible_collections.ddp.play.plugins.module_utils import account_backups, file_replacement, installed_packages

RECORD = "/etc/ddp-play/record.json"
DIRECTORIES = "directories"
PACKAGES = "packages"  # of a role; written by recorded_packages and added_packages, removed by the first
PLANNED = "planned"  # likewise, by added_packages: packages of a transaction that may have been cut off
REPLACED = "replaced"  # likewise: packages of the host that the role's packages replaced
HELD = "held"  # likewise: packages that the role, and nobody before it, has put on hold
OF_PACKAGES = (PACKAGES, PLANNED, REPLACED)  # kept by host_record until recorded_packages has removed them
ACCOUNTS = "accounts"  # directory next to the record
ACCEPTANCE = "acceptance"  # entries that are there until a new host was checked; never without those of a role


def load(path: str) -> Dict[str, Any]:
    """The record; empty where there is none. ValueError for a file that is not a record."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError("%s is not a JSON object" % path)  # noqa: TRY004 - the content of a file, not an argument
    return found


def save(path: str, record: Dict[str, Any]) -> None:
    """Replace the record in one step; an empty one is removed with its directory, if that is empty too."""
    folder = Path(path).parent
    accounts, etc = folder / ACCOUNTS, folder.parent
    kept = {key: value for key, value in record.items() if value}
    if not set(kept) - {ACCEPTANCE}:
        if Path(path).exists():
            Path(path).unlink()
        account_backups.give_back(accounts, etc)
        remove_if_empty(str(folder))
        return
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not Path(path).exists():
        account_backups.keep(accounts, etc)
    content = json.dumps(kept, indent=2, sort_keys=True) + "\n"
    file_replacement.replace_file(path, content.encode(), mode=0o644)


def is_new(path: str) -> bool:
    """Whether the roles have provisioned the host, and nobody has checked it since. A damaged record tells nothing."""
    try:
        return bool(load(path).get(ACCEPTANCE))
    except (OSError, ValueError):
        return False


def names(path: str, role: str, kind: str) -> List[str]:
    """Packages in a list of the record of a role, without the architecture of dpkg's names; none if it is damaged.

    PACKAGES has the planned ones too: the role's, if they are on the host.
    """
    try:
        entries = load(path).get(role, {})
        found = entries.get(kind, []) + (entries.get(PLANNED, []) if kind == PACKAGES else [])
        return sorted({name.split(":")[0] for name in found})
    except (OSError, ValueError, AttributeError):
        return []


def add_names(path: str, role: str, kind: str, names: List[str]) -> None:
    """Add names to a list in the record of a role, such as those of packages."""
    if not names:
        return
    record = load(path)
    entries = record.get(role, {})
    entries = dict(entries, **{kind: sorted({*entries.get(kind, []), *names})})
    save(path, dict(record, **{role: entries}))


def forget_names(path: str, role: str, kind: str, names: List[str]) -> None:
    """Take names out of a list in the record of a role."""
    record = load(path)
    entries = record.get(role, {})
    left = [name for name in entries.get(kind, []) if name not in names]
    if left != entries.get(kind, []):
        entries = {key: value for key, value in dict(entries, **{kind: left}).items() if value or key != kind}
        save(path, dict(record, **{role: entries}))


def note_transaction(path: str, role: str, added: List[str], removed: List[str]) -> Dict[str, List[str]]:
    """Record the packages that a transaction is about to add and to remove. The names that are new in the record."""
    entries = load(path).get(role, {})
    noted = {PACKAGES: added, REPLACED: removed}
    for kind, names in noted.items():
        add_names(path, role, kind, names)
    return {kind: [name for name in names if name not in entries.get(kind, [])] for kind, names in noted.items()}


def forget_undone(path: str, role: str, noted: Dict[str, List[str]], listing: str) -> None:
    """After a transaction that failed: forget packages that it has not added, and those that it has not removed.

    Somebody may install the first ones later, and then they are not the role's. noted: of note_transaction. listing:
    output of installed_packages.query.
    """
    there, working = installed_packages.read(listing), installed_packages.read_working(listing)
    forget_names(path, role, PACKAGES, [name for name in noted[PACKAGES] if name not in there])
    forget_names(path, role, REPLACED, [name for name in noted[REPLACED] if name in working])


def remove_if_empty(folder: str) -> bool:
    """Remove a directory that is empty; True if that was done."""
    path = Path(folder)
    if path.is_symlink() or not path.is_dir() or any(path.iterdir()):
        return False
    path.rmdir()
    return True


def make_directories(record: str, folder: str) -> None:
    """Create a directory with its parents, mode 0755, and record the new ones before they exist."""
    missing: List[str] = []
    path = Path(folder)
    while not path.exists():
        missing.append(str(path))
        path = path.parent
    own = str(Path(record).parent)
    new = [name for name in missing if name != own]
    if new:
        found = load(record)
        save(record, dict(found, **{DIRECTORIES: sorted({*found.get(DIRECTORIES, []), *new})}))
    Path(folder).mkdir(mode=0o755, parents=True, exist_ok=True)


def made_here(record: str, folder: str) -> bool:
    """Whether the roles created this directory."""
    return folder == str(Path(record).parent) or folder in load(record).get(DIRECTORIES, [])


def remove_made(record: str, folder: str) -> bool:
    """Remove a directory and its parents as far as the roles created them and they are empty; True if one went."""
    removed = False
    path = Path(folder)
    while made_here(record, str(path)) and (not path.exists() or remove_if_empty(str(path))):
        found = load(record)
        left = [name for name in found.get(DIRECTORIES, []) if name != str(path)]
        if found:
            save(record, dict(found, **{DIRECTORIES: left}))
        removed = True
        path = path.parent
    return removed
