"""The user of the ranks, where root starts processes and reads files for another user."""

from __future__ import annotations

import contextlib
import os
import pwd
from typing import Any, Dict, FrozenSet, Iterator, List, Optional

User = Optional[Dict[str, Any]]  # `user` of a host's spec: uid, gid, groups; None: the user of this process


def wanted_user(wanted: Optional[str], login: Dict[str, Any]) -> Dict[str, Any]:
    """User of the ranks: uid and gid, from `uid:gid` or else from the facts of the login."""
    uid, _, gid = (wanted or "%d:%d" % (login["login_uid"], login["login_gid"])).partition(":")
    return {"uid": int(uid), "gid": int(gid), "groups": [int(gid)]}


def other_user(user: User) -> User:
    """The ranks' user if this process is root and the ranks are not; else None."""
    return user if user and os.geteuid() == 0 and user["uid"] != 0 else None


def owners(user: User) -> FrozenSet[int]:
    """Uids to which the directories of a run may belong: this process and the ranks' user."""
    return frozenset({os.geteuid(), user["uid"] if user else os.geteuid()})


def supplementary_groups(user: Dict[str, Any]) -> List[int]:
    """Groups that a login of this user has; those of the spec for a uid without an account on this host."""
    try:
        return os.getgrouplist(pwd.getpwuid(user["uid"]).pw_name, user["gid"])
    except KeyError:
        return list(user["groups"])


def process_options(user: User) -> Dict[str, Any]:
    """Arguments of `subprocess` for a process of the ranks' user; none if this process has that user already."""
    found = other_user(user)
    if found is None:
        return {}
    return {"user": found["uid"], "group": found["gid"], "extra_groups": supplementary_groups(found)}


@contextlib.contextmanager
def acting_as(user: User) -> Iterator[None]:
    """Access files with the rights of the ranks' user, for all threads of this process. Raises OSError."""
    found = other_user(user)
    if found is None:
        yield
        return
    before = os.getgroups(), os.getegid()
    os.setgroups(supplementary_groups(found))
    try:
        os.setegid(found["gid"])
        os.seteuid(found["uid"])
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[1])
        os.setgroups(before[0])
