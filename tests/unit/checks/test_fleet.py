"""Rules that compare hosts: a majority, none, and values that no two hosts may share."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import CheckedHost, Compared, Fleet, NotRun, attempt, compare, fleet_from_json, names

RULE = Compared("kernel", "why", Status.FAIL, "uname -r", "install it")


@pytest.mark.parametrize(
    ("values", "where", "status"),
    [
        ({"h1": "a"}, (), None),
        ({"h1": "a", "h2": "a"}, (), None),
        ({"h1": "a", "h2": "b"}, ("h1", "h2"), Status.WARN),
        ({"h1": "a", "h2": "a", "h3": "b"}, ("h3",), Status.FAIL),
        ({"h1": "a", "h2": "a", "h3": "b", "h4": "b"}, ("h1", "h2", "h3", "h4"), Status.WARN),
        ({"h1": "a", "h2": "b", "h3": "c"}, ("h1", "h2", "h3"), Status.WARN),
    ],
)
def test_who_is_named(values: dict[str, str], where: tuple[str, ...], status: Status | None) -> None:
    found = [row for row in compare(RULE, values) if row.status is not Status.OK]
    assert [(row.where, row.status) for row in found] == ([(where, status)] if where else [])


def test_the_finding_says_what_the_others_have() -> None:
    _, found = compare(RULE, {"h1": "6.1", "h2": "6.1", "h3": "6.5"})
    assert (found.value, found.limit, found.others) == ("6.5", "6.1", "6.1 on h1, h2")
    assert found.source == "the value of most hosts, 2 of 3"
    assert (found.look, found.command) == ("uname -r", "install it")


@pytest.mark.parametrize(
    ("rows", "reason", "broken"),
    [
        ({"a": {"problem": "no answer within 3 s"}}, "no answer within 3 s", True),
        ({"a": {"problem": "a container", "not_here": True}}, "a container", False),
        ({}, "it was not read", True),
    ],
)
def test_what_was_not_read_is_no_value(rows: dict[str, Any], reason: str, broken: bool) -> None:
    with pytest.raises(NotRun, match=reason) as missing:
        CheckedHost("h1", readings=rows).read("a")
    assert missing.value.broken is broken
    assert CheckedHost("h1", readings={"a": {"value": None}}).read("a") is None


def test_a_rule_that_meets_another_shape_is_not_run() -> None:
    found = attempt("x", CheckedHost("h1"), lambda host: host.readings["none"])
    assert (found.status, found.broken) == (Status.UNCHECKED, True)


def test_a_document_with_a_host_that_gave_no_answer() -> None:
    document = {"hosts": {"h2": {"problem": {"message": "refused", "hint": "sshd"}}, "h1": {}},
                "network": {"network": "", "addresses": [], "interfaces": [], "problem": "", "hint": ""}}  # fmt: skip
    found = fleet_from_json(document)
    assert [(host.name, host.problem, host.hint) for host in found.hosts] == [
        ("h1", "it gave no answer", ""), ("h2", "refused", "sshd")
    ]  # fmt: skip
    assert found.reached == ()
    assert Fleet(()).facts == ()


def test_names_in_a_text() -> None:
    assert names([]) == ""
    assert names([f"h{n}" for n in range(6)]) == "h0, h1, h2, h3 and 2 more"
