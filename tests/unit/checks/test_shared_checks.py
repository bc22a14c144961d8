"""Files that hosts see of each other in the shared directory."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from tests.unit.checks.fleets import bad, facts, fleet, reached, readings, the_one


def seen(**by_host: dict[str, float | None]) -> dict[str, dict[str, Any]]:
    return {host: {"saw:tokens": {"seen": rows}} for host, rows in by_host.items()}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        (seen(h1={"h2": 0.1, "h3": 2.9}), None),
        (seen(h1={"h2": 0.1, "h3": None}, h2={"h1": 0.1, "h3": None}, h3={"h1": None, "h2": None}), ("h3",)),
        (
            seen(h1={"h2": None, "h3": None}, h2={"h1": None, "h3": None}, h3={"h1": None, "h2": None}),
            ("h1", "h2", "h3"),
        ),
    ],
)
def test_the_host_that_has_another_directory(changes: dict[str, Any], where: tuple[str, ...] | None) -> None:
    found = bad(fleet(**changes))
    assert [(row.check, row.status, row.where) for row in found] == (
        [("shared by all", Status.FAIL, where)] if where else []
    )


def test_of_two_hosts_it_cannot_be_told_which_is_right() -> None:
    (found,) = bad(fleet(2, **seen(h1={"h2": None}, h2={"h1": None})))
    assert (found.where, found.others) == (("h1", "h2"), "it cannot be told which is right")


def test_where_no_host_told_what_it_sees_it_is_not_run() -> None:
    hangs: dict[str, Any] = {"saw:tokens": {"problem": "no answer within 2 s (--within)", "took_s": 2.0}}
    (found,) = bad(fleet(h1=hangs, h2=hangs, h3=hangs))
    assert (found.check, found.status, found.broken) == ("shared by all", Status.UNCHECKED, True)


def test_a_host_that_cannot_write_is_not_looked_for() -> None:
    changes = seen(h1={"h2": 0.1, "h3": None}, h2={"h1": 0.1, "h3": None})
    found = bad(fleet(h3={"token.problem": "Read-only file system"}, **changes))
    assert [(row.check, row.where) for row in found] == [("shared directory", ("h3",))]


def test_a_directory_without_permission_or_with_another_owner() -> None:
    the_one({"token.problem": "Permission denied"}, "shared directory", Status.FAIL, "Permission denied")
    the_one({"token.owner": 65534}, "shared owner", Status.FAIL, "belong to 65534")


def test_a_file_that_the_check_left_behind_is_said() -> None:
    the_one({"end:token": "Read-only file system"}, "files of the check", Status.WARN, "Read-only file system")
    (found,) = bad(fleet(h3={"end:token": "Read-only file system"}))
    assert found.command == "rm /shared/.ddp-play-check-*, while no check runs"


@pytest.mark.parametrize(
    ("ended", "lost", "why"),
    [
        ({"token": {"problem": "no answer within 8 s"}}, "", "no answer within 8 s"),
        ({}, "no answer to check_end within 20 s", "no answer to check_end within 20 s"),
        ({}, "", "it was not read"),
    ],
)
def test_a_host_that_does_not_say_what_became_of_its_file(ended: dict[str, Any], lost: str, why: str) -> None:
    known = fleet(2)
    parts = (readings(3, 3), reached(3, 3), known.hosts[0].clock, ended)
    silent = CheckedHost("h3", facts(3), "", "", lost, *parts)
    found = [row for row in bad(Fleet((*known.hosts, silent), known.network)) if row.check == "files of the check"]
    assert [(row.status, row.where, row.value, row.broken) for row in found] == [
        (Status.UNCHECKED, ("h3",), f"{why}; /shared/.ddp-play-check-* may be left there", True)
    ]


def test_of_a_host_that_could_not_write_nothing_is_left() -> None:
    change = {"token.problem": "Permission denied", "end:token": "Permission denied"}
    the_one(change, "shared directory", Status.FAIL, "Permission denied")
