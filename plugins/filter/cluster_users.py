"""Decision of role cluster_users: accounts, groups and keys that a host lacks, and what needs a person."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set

Row = Mapping[str, Any]
Entries = Mapping[str, List[str]]  # fields of passwd or group by name
# Names that useradd takes on all systems of the roles.
NAME = re.compile(r"^[a-z_][a-z0-9_-]{0,30}$")
# A line of authorized_keys, with or without options before the type.
KEY = re.compile(r"(?:^|\s)(?:ssh-\S+|ecdsa-sha2-\S+|sk-\S+)\s+(?P<blob>AAAA[0-9A-Za-z+/]+=*)(?:\s|$)")


def account_commands(accounts: Sequence[Row], groups: Sequence[Row]) -> Dict[str, List[str]]:
    """Read-only commands: entries of all names and ids, the homes, and each user's keys, read as that user.

    A home on NFS is often closed to root. An account that does not exist has no keys; runuser fails then.
    """
    rows, own = [complete(row) for row in accounts], own_groups(accounts, groups)
    members = sorted({name for row in rows for name in row["groups"]})
    found = {
        "passwd": ["getent", "passwd", *(text for row in rows for text in (row["name"], str(row["uid"])))],
        "group": ["getent", "group", *(text for row in own for text in (row["name"], str(row["gid"]))), *members],
    }
    for row in rows:
        found[f"home {row['name']}"] = ["test", "-d", row["home"]]
        found[f"keys {row['name']}"] = ["runuser", "-u", row["name"], "--", "cat", keys_path(row)]
    return found


def complete(account: Row) -> Dict[str, Any]:
    """The account with its defaults: a group of the same name and number, and a home below /home."""
    name = str(account.get("name", ""))
    defaults = {"group": name, "gid": account.get("uid"), "home": f"/home/{name}", "shell": "/bin/bash"}
    lists: Dict[str, Any] = {"groups": [], "keys": [], "comment": "", "create_home": True}
    given = {key: value for key, value in account.items() if value is not None}
    return {**defaults, **lists, **given}


def own_groups(accounts: Sequence[Row], groups: Sequence[Row]) -> List[Dict[str, Any]]:
    """Groups that must exist: those listed, and the primary ones of the accounts; name and gid each."""
    listed = {row["name"]: row["gid"] for row in groups}
    for row in map(complete, accounts):
        listed.setdefault(row["group"], row["gid"])
    return [{"name": name, "gid": gid} for name, gid in listed.items()]


def keys_path(account: Row) -> str:
    """The file that sshd reads with its default settings."""
    return f"{account['home']}/.ssh/authorized_keys"


def invalid_accounts(accounts: Sequence[Row], groups: Sequence[Row]) -> List[str]:
    """What is wrong with the variables themselves; empty if nothing is."""
    rows, found = [complete(row) for row in accounts], []
    for row in [*rows, *groups]:
        if not NAME.match(str(row["name"])):
            found.append(f"{row['name']!r} is not a name: a to z, 0 to 9, - and _, at most 31, not a digit first")
    for row in rows:
        if not 0 < int(row["uid"]) < 2**32 - 1:
            found.append(f"uid {row['uid']} of {row['name']} is not possible")
        if any("PRIVATE KEY" in text for text in row["keys"]):
            found.append(f"a key of {row['name']} is a private key; give its .pub file instead")
        elif any(not KEY.search(text) or "\n" in text.strip() for text in row["keys"]):
            found.append(f"a key of {row['name']} is not one line of a .pub file (TYPE AAAA... COMMENT)")
    found += _twice("account", [row["name"] for row in rows])
    found += _twice("uid", [row["uid"] for row in rows])
    found += _twice("group", [row["name"] for row in groups])
    return found + _twice("gid", [row["gid"] for row in own_groups(accounts, groups)])


def decide(state: Mapping[str, Any], accounts: Sequence[Row], groups: Sequence[Row]) -> Dict[str, Any]:
    """Decision from the answers of `account_commands`.

    `problems` need a person: numbers that belong to others, accounts that exist with other numbers or another home.
    `groups`, `accounts` (complete rows), `members` (user and group), `keys` (user and text) are missing.
    `homeless` are users with keys, but without a home to put them in. `changes` says the missing ones in words, `notes`
    is what deprovision has to know of them.
    """
    commands = state["commands"]
    there, known = _entries(commands["passwd"]["stdout"]), _entries(commands["group"]["stdout"])
    rows, own = [complete(row) for row in accounts], own_groups(accounts, groups)
    missing = [row for row in rows if row["name"] not in there]
    homes = {row["name"]: commands[f"home {row['name']}"]["rc"] == 0 for row in rows}
    reached = [row for row in rows if homes[row["name"]] or (row in missing and row["create_home"])]
    found: Dict[str, Any] = {
        "problems": _problems(rows, own, there, known),
        "groups": [row for row in own if row["name"] not in known],
        "accounts": missing,
        "members": [pair for row in rows for pair in _missing_members(row, known)],
        "keys": [pair for row in reached for pair in _missing_keys(row, commands[f"keys {row['name']}"]["stdout"])],
        "homeless": [row["name"] for row in rows if row["keys"] and row not in reached],
    }
    return {**found, "changes": _changes(found), "notes": _notes(found)}


def _entries(text: str) -> Dict[str, List[str]]:
    """Fields of passwd or group by name."""
    rows = [line.split(":") for line in text.splitlines()]
    return {row[0]: row for row in rows if len(row) in (4, 7)}


def _problems(rows: Sequence[Row], own: Sequence[Row], there: Entries, known: Entries) -> List[str]:
    gids = {row["name"]: str(row["gid"]) for row in own}
    found = [text for row in own for text in _number_problem("group", row["name"], gids[row["name"]], known)]
    for row in rows:
        found += _number_problem("account", row["name"], str(row["uid"]), there)
        found += _differences(row, there[row["name"]], gids) if row["name"] in there else []
        unknown = [name for name in row["groups"] if name not in known and name not in gids]
        found += [f"group {name} of {row['name']} does not exist; add it to cluster_users_groups" for name in unknown]
    return found


def _number_problem(kind: str, name: str, number: str, entries: Entries) -> List[str]:
    """Another number of this name, or another name of this number."""
    what = {"account": "uid", "group": "gid"}[kind]
    if name in entries and entries[name][2] != number:
        return [f"{kind} {name} has {what} {entries[name][2]} here, wanted {number}: its files would belong to nobody"]
    owners = [owner for owner, fields in entries.items() if fields[2] == number and owner != name]
    return [f"{what} {number} of {name} belongs to {owners[0]} here"] if owners and name not in entries else []


def _differences(row: Row, fields: Sequence[str], gids: Mapping[str, str]) -> List[str]:
    found = []
    if fields[3] != gids[row["group"]]:
        found.append(f"account {row['name']} has primary group {fields[3]} here, wanted {gids[row['group']]}")
    if fields[5].rstrip("/") != row["home"].rstrip("/"):
        found.append(f"account {row['name']} has its home in {fields[5]} here; set home: {fields[5]}")
    return found


def _missing_members(row: Row, known: Entries) -> List[Dict[str, str]]:
    missing = [name for name in row["groups"] if row["name"] not in _members(name, known)]
    return [{"user": row["name"], "group": name} for name in missing]


def _missing_keys(row: Row, text: str) -> List[Dict[str, str]]:
    there = {found["blob"] for found in KEY.finditer(_without_comments(text))}
    keys = [(key.strip(), KEY.search(key)) for key in row["keys"]]
    return [{"user": row["name"], "key": key} for key, found in keys if found and found["blob"] not in there]


def _without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _changes(found: Mapping[str, Any]) -> List[str]:
    keys = sorted({pair["user"] for pair in found["keys"]})
    return [
        *(f"group {row['name']} (gid {row['gid']})" for row in found["groups"]),
        *(f"account {row['name']} (uid {row['uid']})" for row in found["accounts"]),
        *(f"group {pair['group']}: new member {pair['user']}" for pair in found["members"]),
        *(f"SSH keys of {name}" for name in keys),
    ]


def _notes(found: Mapping[str, Any]) -> Dict[str, List[str]]:
    """Names for the record of the host. Keys of new accounts go with them."""
    new = {row["name"] for row in found["accounts"]}
    return {
        "groups": [row["name"] for row in found["groups"]],
        "accounts": [row["name"] for row in found["accounts"]],
        "members": [f"{pair['user']} {pair['group']}" for pair in found["members"] if pair["user"] not in new],
        "keys": [f"{pair['user']} {pair['key']}" for pair in found["keys"] if pair["user"] not in new],
    }


def undone(state: Mapping[str, Any], notes: Mapping[str, Sequence[str]]) -> Dict[str, Any]:
    """What deprovision takes back, from the record and the answers of `undo_commands`.

    `accounts` and `groups` (names), `members` and `keys` (rows), as far as they are still there. `busy` are accounts
    with processes, and `needed` groups that others have; these stay, and so do `homes`. `spared` are groups of the site
    (name and gid) that have the name of an account that goes: userdel takes them along. `changes` says in words what
    goes.
    """
    commands = state["commands"]
    there, known = _entries(commands["passwd"]["stdout"]), _entries(commands["group"]["stdout"])
    accounts = [name for name in notes.get("accounts", ()) if name in there]
    busy = [name for name in accounts if commands[f"processes {name}"]["rc"] == 0]
    gone = set(accounts) - set(busy)
    groups = [name for name in notes.get("groups", ()) if name in known]
    members = [_split(text, "group") for text in notes.get("members", ())]
    going = {name: gone | {pair["user"] for pair in members if pair["group"] == name} for name in groups}
    needed = [name for name in groups if _users(name, known, there) - going[name]]
    keys = [_split(text, "key") for text in notes.get("keys", ())]
    found: Dict[str, Any] = {
        "accounts": [name for name in accounts if name not in busy],
        "busy": busy,
        "homes": [there[name][5] for name in accounts if name not in busy],
        "groups": [name for name in groups if name not in needed],
        "needed": needed,
        "spared": [
            {"name": name, "gid": known[name][2]}
            for name in accounts
            if name not in busy and name in known and name not in groups
        ],
        "members": [pair for pair in members if pair["user"] in _members(pair["group"], known)],
        "keys": [pair for pair in keys if pair["user"] in there],
    }
    return {**found, "changes": _removals(found)}


def _removals(found: Mapping[str, Any]) -> List[str]:
    return [
        *(f"account {name} (its home stays)" for name in found["accounts"]),
        *(f"group {name}" for name in found["groups"]),
        *(f"group {pair['group']}: member {pair['user']}" for pair in found["members"]),
        *(f"SSH keys of {name}" for name in sorted({pair["user"] for pair in found["keys"]})),
    ]


def undo_commands(notes: Mapping[str, Sequence[str]]) -> Dict[str, List[str]]:
    """Read-only commands: all entries of passwd and group, and whether an account of the role has processes."""
    processes = {f"processes {name}": ["pgrep", "-u", name] for name in notes.get("accounts", ())}
    return {"passwd": ["getent", "passwd"], "group": ["getent", "group"], **processes}


def _split(note: str, name: str) -> Dict[str, str]:
    """A note of the record, "USER VALUE", as a row."""
    user, _, value = note.partition(" ")
    return {"user": user, name: value}


def _users(group: str, known: Entries, there: Entries) -> Set[str]:
    """Members of a group, and accounts whose primary group it is."""
    primary = {name for name, fields in there.items() if fields[3] == known[group][2]}
    return primary | set(_members(group, known))


def _members(group: str, known: Entries) -> List[str]:
    return [name for name in known[group][3].split(",") if name] if group in known else []


def _twice(what: str, values: Sequence[Any]) -> List[str]:
    texts = [str(value) for value in values]
    return [f"{what} {text} is given twice" for text in dict.fromkeys(texts) if texts.count(text) > 1]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "cluster_users_commands": account_commands,
            "cluster_users_invalid": invalid_accounts,
            "cluster_users_decision": decide,
            "cluster_users_undo_commands": undo_commands,
            "cluster_users_undone": undone,
        }
