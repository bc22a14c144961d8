"""Classes of exit codes by findings."""

from __future__ import annotations

import pytest

from ddp_play.checks.finding import Finding, Status, count_by_status, exit_class, exit_code

OK = Finding("a", Status.OK, "x")
WARN = Finding("b", Status.WARN, "x")
UNCHECKED = Finding("c", Status.UNCHECKED, "x")
FAIL = Finding("d", Status.FAIL, "x")
BROKEN = Finding("f", Status.UNCHECKED, "no answer within 3 s", broken=True)
AWAY = Finding("e", Status.FAIL, "x", where=("h1", "h2"), unreachable=True)


@pytest.mark.parametrize(
    ("findings", "name", "code"),
    [
        ((), "done", 0),
        ((OK, WARN, UNCHECKED), "done", 0),
        ((OK, FAIL), "check_failed", 1),
        ((FAIL, AWAY), "host_not_ready", 69),
        ((OK, BROKEN), "host_not_ready", 69),
        ((BROKEN, FAIL), "check_failed", 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst(findings: tuple[Finding, ...], name: str, code: int) -> None:
    assert (exit_class(findings), exit_code(findings)) == (name, code)


def test_counts_begin_with_the_worst_and_rows_name_the_hosts() -> None:
    assert next(iter(count_by_status((OK, FAIL, FAIL)).items())) == (Status.FAIL, 2)
    assert AWAY.to_json()["where"] == ["h1", "h2"]


def test_rows_have_the_fields_that_only_some_checks_have_where_they_are_known() -> None:
    assert set(FAIL.to_json()) == {"check", "status", "where", "value", "why", "command"}
    found = Finding("g", Status.FAIL, "x", limit="1", source="s", others="o", look="l", directions=(("h1", "h2"),))
    row = found.to_json()
    assert (row["limit"], row["source"], row["others"], row["look"]) == ("1", "s", "o", "l")
    assert row["directions"] == [{"from": "h1", "to": "h2"}]
