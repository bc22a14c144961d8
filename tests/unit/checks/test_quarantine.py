"""Who belongs in quarantine, who may leave it, and from which number of failed hosts on nobody is to blame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.check_levels import single_findings
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.quarantine import Circumstances, Decision, decide, why_it_stays
from ddp_play.planning.host_facts import Quarantine
from tests.unit.checks import fleets

MARK = Quarantine("in quarantine since 2026-01-02 03:04 UTC (kim from login1): mtu: 1400", False, "quick", ("mtu",), 4)


def names(number: int) -> tuple[str, ...]:
    return tuple(f"h{count}" for count in range(1, number + 1))


def failures(*where: str, check: str = "mtu", unreachable: bool = False) -> tuple[Finding, ...]:
    """The same of each host, before they share a finding."""
    return tuple(
        Finding(check, Status.FAIL, f"{check} is wrong", where=(host,), unreachable=unreachable) for host in where
    )


def between(*where: str) -> Finding:
    return Finding("ports", Status.FAIL, "timeout", where=where)


def test_a_host_is_named_with_all_that_it_failed() -> None:
    late = Finding("clock", Status.WARN, "late", where=("h3",))
    (found,) = decide((*failures("h2"), late, *failures("h2", check="cpu")), names(4)).failed
    assert (found.host, found.reason) == ("h2", "mtu: mtu is wrong; cpu: cpu is wrong")
    mark = found.mark("quick", 4)
    assert (mark["level"], mark["checks"], mark["num_hosts"]) == ("quick", ["mtu", "cpu"], 4)
    assert mark["evidence"][0] == {"check": "mtu", "value": "mtu is wrong"}


def test_warnings_missing_values_and_hosts_that_cannot_be_asked_quarantine_nobody() -> None:
    others = [Finding("a", status, "", where=("h1",)) for status in Status if status is not Status.FAIL]
    assert decide((*others, *failures("h2", unreachable=True)), names(3)) == Decision()


@pytest.mark.parametrize(
    ("failed", "fleet", "broken"),
    [
        (1, 1, ""),
        (1, 2, ""),
        (2, 2, "all 2"),
        (2, 3, ""),
        (3, 3, "all 3"),
        (3, 6, ""),
        (3, 5, "3 of 5"),
        (4, 8, ""),
        (5, 8, "5 of 8"),
    ],
)
def test_too_many_failures_at_once_are_nobodys_fault(failed: int, fleet: int, broken: str) -> None:
    found = decide(failures(*names(failed)), names(fleet))
    if broken:
        assert found == Decision(broken=f"{broken} hosts failed: the test or the network is broken")
    else:
        assert [row.host for row in found.failed] == list(names(failed))


def test_a_fault_between_two_hosts_is_nobodys_unless_one_of_them_was_there_before() -> None:
    pairs = (between("h1", "h2"), between("h2", "h3"))
    assert decide(pairs, names(4)) == Decision(unclear=(("ports", ("h1", "h2", "h3")),))
    found = decide(pairs, names(4), trusted=("h1", "h3", "h4"))
    assert [(row.host, len(row.findings)) for row in found.failed] == [("h2", 2)]
    assert found.unclear == ()
    assert decide(pairs, names(4), trusted=names(4)) == Decision()


def test_a_trusted_host_that_fails_stays_and_counts_for_the_breaker() -> None:
    found = decide(failures("h1", "h4"), names(4), trusted=("h1", "h2", "h3"))
    assert [row.host for row in found.failed] == ["h4"]
    assert decide(failures(*names(3)), names(4), trusted=("h1", "h2")).broken


def stays(number: int, mark: Quarantine | None, *, as_root: bool = True, level: str = "quick", **change: Any) -> str:
    """Why h1 of so many hosts stays in quarantine, with the remedy; `change`: of its readings."""
    fleet = fleets.fleet(number, h1={"facts.quarantine": mark, **change})
    how = Circumstances(level, number, as_root)
    found = why_it_stays(fleet.hosts[0].known, single_findings(fleet, "quick"), how)
    return f"{found.why} -> {found.remedy}" if found else ""


def test_a_host_that_passes_what_it_failed_is_released() -> None:
    assert stays(4, MARK) == ""
    assert stays(4, None) == ""
    assert stays(3, MARK) == "", "three hosts tell which of them differs"
    assert stays(4, MARK, level="full") == ""
    assert stays(4, replace(MARK, level="full"), level="full") == ""


@pytest.mark.parametrize(
    ("number", "change", "text"),
    [
        (4, {"mark": replace(MARK, level="")}, "-m ddp.play.host_quarantine -a state=released"),
        (4, {"mark": replace(MARK, level="full")}, "--level full --release"),
        (
            2,
            {},
            "4 hosts were compared when it failed; now 2 answered, and 3 are needed -> "
            "with more hosts, or without --limit: ddp-play check -i INVENTORY --release -b",
        ),
        (4, {"as_root": False}, "root put it there for everybody -> repeat it with -b"),
        (4, {"mark": replace(MARK, own=True)}, "it is on the own list of ops -> repeat it without -b"),
        (4, {"mark": replace(MARK, checks=("rdma ports",))}, "it must pass: rdma ports (no result)"),
        (4, {"cpu": {"problem": "hung"}, "mark": replace(MARK, checks=("cpu",))}, "it must pass: cpu (hung)"),
        (4, {"facts.nofile_hard": 1, "limits.nofile": 1}, "it fails: open files: "),
    ],
)
def test_it_stays_and_says_why(number: int, change: dict[str, Any], text: str) -> None:
    fields = dict(change)
    assert text in stays(number, fields.pop("mark", MARK), **fields)


def test_a_users_own_list_needs_no_root() -> None:
    own = replace(MARK, own=True)
    assert stays(4, own, as_root=False) == ""
    root: dict[str, Any] = {"facts.user": replace(fleets.facts(1).user, uid=0)}
    assert stays(4, own, as_root=True, **root) == "", "a login as root has no other list"


def test_what_is_wrong_between_two_hosts_keeps_neither_there() -> None:
    twin = fleets.fleet(4, h1={"facts.quarantine": MARK, "identity.host_keys": ["key2"]})
    assert why_it_stays(twin.hosts[0].known, single_findings(twin, "quick"), Circumstances("quick", 4, True)) is None


def test_what_keeps_a_host_there_names_the_way_out_by_hand() -> None:
    assert "to end it all the same: ansible HOSTS -i INVENTORY -b" in stays(4, replace(MARK, checks=("rdma ports",)))
