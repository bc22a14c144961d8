"""Checks that are missing for one reason, said once."""

from __future__ import annotations

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.missing_checks import MANY, condensed

WHY = "no answer to check_read within 30 s"
MISSING = tuple(Finding(f"c{n}", Status.UNCHECKED, WHY, where=("h3",), broken=True) for n in range(1, 7))
PASSED = Finding("cpu", Status.OK, "128", where=("h1",))
NOT_HERE = tuple(Finding(f"k{n}", Status.UNCHECKED, "a container", where=("h1",)) for n in range(9))


def test_many_for_one_reason_are_one_in_the_place_of_the_first() -> None:
    found = condensed((PASSED, *MISSING, *NOT_HERE))
    assert [row.check for row in found] == ["cpu", "6 checks", *(row.check for row in NOT_HERE)]
    assert (found[1].where, found[1].status, found[1].broken) == (("h3",), Status.UNCHECKED, True)
    assert found[1].value == f"{WHY} (c1, c2, c3, c4 and 2 more)"


def test_few_and_those_of_other_hosts_or_reasons_stay() -> None:
    few = MISSING[: MANY - 1]
    other = (Finding("c7", Status.UNCHECKED, "another", where=("h3",), broken=True),
             Finding("c8", Status.UNCHECKED, WHY, where=("h2",), broken=True))  # fmt: skip
    assert condensed((*few, *other, PASSED)) == (*few, *other, PASSED)
    assert condensed(()) == ()
