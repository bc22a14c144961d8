"""Every rule of the quick level: a defect of one host is one finding about it, and hosts without defects have none."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.check_levels import LEVELS, judge
from ddp_play.checks.finding import Status, exit_code
from ddp_play.checks.fleet import CheckedHost, Fleet
from tests.unit.checks.fleets import ASKED, bad, facts, fleet, readings

WARN, FAIL, NOT_RUN = Status.WARN, Status.FAIL, Status.UNCHECKED
HUNG = {"problem": "no answer within 3 s", "took_s": 3.0}


def test_hosts_without_a_defect_have_no_finding() -> None:
    assert bad(fleet()) == []
    assert bad(fleet(2)) == []
    assert bad(fleet(1)) == []


@pytest.mark.parametrize("name", sorted(set(readings(1, 1)) - {"names", "token", "cpu"}))
def test_a_reading_that_hung_is_not_run_and_no_pass(name: str) -> None:
    checked = fleet(h3={name: HUNG})
    found = [row for row in bad(checked) if row.status is not NOT_RUN or row.value != HUNG["problem"]]
    assert found == []
    missing = [row for row in bad(checked) if row.where == ("h3",)]
    assert missing
    assert exit_code(judge(checked, "quick", ASKED)) == 69


def test_a_reading_that_a_host_cannot_give_is_not_run_and_no_failure() -> None:
    container = {"problem": "this host is a container", "not_here": True}
    checked = fleet(h3={"kernel_log": container})
    assert [(row.check, row.status, row.value) for row in bad(checked)] == [
        ("kernel log", NOT_RUN, container["problem"])
    ]
    assert exit_code(judge(checked, "quick", ASKED)) == 0


@pytest.mark.parametrize("value", [None, 7, "text", [], {"cpus": "many"}])
def test_an_answer_of_another_shape_is_not_run(value: Any) -> None:
    (found,) = bad(fleet(h3={"cpu_quota": value}))
    assert (found.status, found.broken, found.where) == (NOT_RUN, True, ("h3",))


def test_two_hosts_that_differ_are_both_named_and_none_is_blamed() -> None:
    (found,) = bad(fleet(2, h2={"software.kernel": "6.5"}))
    assert (found.status, found.where) == (WARN, ("h1", "h2"))
    assert "cannot be told which is right" in found.source
    assert found.value == "differs: 6.1 on h1; 6.5 on h2"


def test_three_values_have_no_majority() -> None:
    (found,) = bad(fleet(h2={"software.kernel": "6.5"}, h3={"software.kernel": "6.6"}))
    assert (found.status, found.where) == (WARN, ("h1", "h2", "h3"))


def test_two_defects_are_two_findings() -> None:
    found = bad(fleet(h1={"limits.nofile": 256}, h3={"cpu.usable": 1}))
    assert [(row.check, row.where) for row in found] == [("open files", ("h1",)), ("cpu", ("h3",))]


def test_a_drained_host_is_a_warning() -> None:
    (found,) = bad(fleet(h3={"facts.drained": "closed by ops"}))
    assert (found.check, found.status, found.where) == ("takes runs", WARN, ("h3",))


def test_a_host_that_was_not_reached_outweighs_all() -> None:
    away = CheckedHost("h9", problem="Connection refused", hint="check sshd")
    checked = fleet()
    found = judge(Fleet((*checked.hosts, away), checked.network), "quick", ASKED)
    (row,) = [row for row in found if row.status is FAIL]
    assert (row.check, row.where, row.value, row.command) == (
        "host reached",
        ("h9",),
        "Connection refused",
        "check sshd",
    )
    assert exit_code(found) == 69


def test_a_host_that_stopped_to_answer_passes_nothing_more() -> None:
    checked = fleet()
    silent = CheckedHost("h3", facts(3, shared=None), lost="no answer to check_read within 20 s")
    found = judge(Fleet((*checked.hosts[:2], silent), checked.network), "quick", ASKED)
    passed = {row.check for row in found if row.status is Status.OK and "h3" in row.where}
    by_facts = {"host reached", "addresses", "different machines", "common network", "mtu", "nic speed", "nics",
                "leftovers", "ephemeral ports", "gpus", "engine", "version: engine"}  # fmt: skip
    assert passed == by_facts
    assert {row.value for row in found if row.status is NOT_RUN} >= {"no answer to check_read within 20 s"}
    assert exit_code(found) == 69


def test_hosts_without_a_shared_directory_are_not_compared() -> None:
    without = {f"h{n}": {"facts.shared": None} for n in (1, 2, 3)}
    checks = {row.check for row in judge(fleet(**without), "quick", ASKED)}
    assert not checks & {"shared directory", "shared by all"}


def test_the_commands_name_the_inventory_and_the_hosts() -> None:
    (found,) = bad(fleet(h2={"reboot_pending": ["x"]}, h3={"reboot_pending": ["x"]}))
    assert found.command == "ddp-play reboot -i inv --limit h2,h3"


def test_the_levels() -> None:
    assert list(LEVELS) == ["quick", "full", "burn-in"]
    assert [len(LEVELS["full"]) - len(LEVELS["quick"]), len(LEVELS["burn-in"]) - len(LEVELS["full"])] == [5, 3]
