"""Checks of the shared directory: written by each host, seen by all others. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet, NotRun, attempt, counted, each, names, ok

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FAIL = Status.FAIL


def shared_directory(fleet: Fleet) -> Iterator[Finding]:
    """What one host writes into the shared directory, the others see in time, with the right owner."""
    having = [host for host in fleet.reached if host.known.shared is not None]
    if not having:
        return
    yield from each(Fleet(tuple(having)), "shared directory", own_token)
    yield from each(Fleet(tuple(having)), "shared owner", _owner)
    writers = [host for host in having if getattr(attempt("", host, own_token), "status", None) is Status.OK]
    if len(writers) > 1:
        yield from _seen(writers)


def own_files(fleet: Fleet) -> Iterator[Finding]:
    """What the check itself wrote into the shared directory is gone."""
    having = tuple(host for host in fleet.reached if host.known.shared is not None)
    yield from each(Fleet(having), "files of the check", _removed)


def own_token(host: CheckedHost) -> Finding:
    """Whether the host could write its file there. Raises NotRun."""
    shared, row = host.known.shared, host.read("token")
    path = shared.path if shared else ""
    if row["problem"]:
        return Finding(
            "", FAIL, f"{path}: {row['problem']}", "sources and checkpoints are kept there",
            "mount it there, writable for this user", limit="a file can be written", source="a file written and synced",
            look=f"findmnt -T {path}; touch {path}/x",
        )  # fmt: skip
    return ok(f"{path} can be written")


def _owner(host: CheckedHost) -> Finding | None:
    shared, row = host.known.shared, host.read("token")
    path = shared.path if shared else ""
    if row["problem"]:
        return None  # a finding of its own
    if row["owner"] != row["user"]:
        return Finding(
            "", FAIL, f"{path}: files of user {row['user']} belong to {row['owner']}",
            "ranks cannot change their own files",
            "export it without all_squash, and with the same user ids on all hosts",
            limit=f"user {row['user']}", source="owner of a new file", look=f"ls -ln {path}; id",
        )  # fmt: skip
    return ok("files of a user belong to that user")


def _removed(host: CheckedHost) -> Finding | None:
    """Whether the host's own file is gone. None: it could not write one."""
    path = host.known.shared.path if host.known.shared else ""
    left = f"{path}/.ddp-play-check-*"
    written = attempt("", host, lambda host: not host.read("token")["problem"])
    if written is False:
        return None
    try:
        problem = host.gave_back("token")
    except NotRun as missing:
        raise NotRun(f"{missing.reason}; {left} may be left there", broken=True) from missing
    if not problem:
        return ok("removed")
    return Finding(
        "", Status.WARN, f"{left} is left there: {problem}", "nobody else removes it",
        f"rm {left}, while no check runs",
        limit="removed", source="removal of a file", look=f"ls -la {path}",
    )  # fmt: skip


def _seen(hosts: list[CheckedHost]) -> Iterator[Finding]:
    check = "shared by all"
    seen: dict[str, set[str]] = {}
    for host in hosts:
        found = attempt(check, host, lambda host: host.saw("tokens")["seen"])
        if isinstance(found, Finding):
            yield found
        else:
            seen[host.name] = {str(peer) for peer, took_s in found.items() if took_s is not None}
    groups = _groups(seen)
    if not groups:
        return
    if len(groups) == 1:
        yield Finding(check, Status.OK, "each host sees the files of the others", where=tuple(seen))
        return
    sources = {host.name: host.read("token")["source"] for host in hosts if host.name in seen}
    largest = max(groups, key=len)
    blamed = [group for group in groups if group is not largest] if 2 * len(largest) > len(seen) else [list(seen)]
    for group in blamed:
        others = [name for name in seen if name not in group]
        told = f"{sources[others[0]]} on {names(others)}" if others else "it cannot be told which is right"
        yield Finding(
            check, FAIL, f"files of other hosts are not seen within 3 s ({counted(sources[name] for name in group)})",
            "sources, rendezvous files and checkpoints are not where the others look", "mount the same export there",
            tuple(group), limit="seen within 3 s", source="a file of each host, looked for on the others", others=told,
            look="findmnt -T DIRECTORY; ls -la DIRECTORY",
        )  # fmt: skip


def _groups(seen: Mapping[str, set[str]]) -> list[list[str]]:
    """Hosts that see each other's files, directly or through others."""
    groups: list[list[str]] = []
    for name in seen:
        near = [group for group in groups if any(name in seen[other] and other in seen[name] for other in group)]
        groups = [group for group in groups if group not in near] + [[*(row for group in near for row in group), name]]
    return groups
