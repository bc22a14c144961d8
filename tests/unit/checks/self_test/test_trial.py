"""Judgement of a check on hosts with a defect: detected, missed, false alarms."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.self_test.defect import Defect, Wanted
from ddp_play.checks.self_test.trial import Trial, alarms_of_clean, counts, judged, text_of, without

VALUES = {"net": "10.0.0"}
PORTS = Defect(10, "blocked", "", "", "ports", ("h1", "h2"), says="timeout", ways=(("h2", "h1"),))
TWICE = Defect(17, "address twice", "", "", "addresses", ("h1", "h3"), says="{net}.200")
NONE = Defect(42, "text at login", "", "")


def row(check: str, where: list[str], result: str = "fail", **more: Any) -> dict[str, Any]:
    return {"check": check, "result": result, "where": where, "value": "timeout", "broken": False, **more}


BLOCKED = row("ports", ["h1", "h2"], directions=[{"from": "h2", "to": "h1"}])
OTHER_WAY = row("ports", ["h1", "h2"], directions=[{"from": "h1", "to": "h2"}])
PASSED, ABSENT = row("cpu", ["h1"], "pass"), row("kernel log", ["h1"], "not run")
WARNED = row("mtu", ["h3"], "warn")


@pytest.mark.parametrize(
    ("defect", "rows", "result", "num_alarms"),
    [
        (PORTS, [PASSED, ABSENT, BLOCKED], "detected", 0),
        (PORTS, [BLOCKED, WARNED], "detected", 1),
        (PORTS, [OTHER_WAY], "MISSED", 1),
        (PORTS, [{**BLOCKED, "result": "warn"}], "MISSED", 1),
        (PORTS, [{**BLOCKED, "value": "refused"}], "MISSED", 1),
        (PORTS, [], "MISSED", 0),
        (PORTS, [BLOCKED, dict(BLOCKED)], "detected", 1),
        (TWICE, [row("addresses", ["h1", "h3"], value="10.0.0.200")], "detected", 0),
        (TWICE, [row("addresses", ["h1", "h3"], value="10.9.0.200")], "MISSED", 1),
        (NONE, [PASSED, ABSENT], "clean", 0),
        (NONE, [row("reboot", ["h1"], "not run", broken=True)], "clean", 1),
    ],
)
def test_a_check_of_a_defect(defect: Defect, rows: list[dict[str, Any]], result: str, num_alarms: int) -> None:
    trial = judged(defect, rows, VALUES, 3.14)
    assert (trial.result, len(trial.false_alarms), trial.seconds) == (result, num_alarms, 3.1)
    assert trial.is_right == (result in ("detected", "clean") and not num_alarms)


def test_all_findings_of_a_defect_are_needed() -> None:
    both = Defect(
        10, "blocked", "", "", "ports", ("h1", "h2"), ways=(("h2", "h1"),), more=(Wanted("mtu", ("h3",), "warn"),)
    )
    assert judged(both, [BLOCKED, WARNED], VALUES, 1.0).result == "detected"
    missed = judged(both, [BLOCKED], VALUES, 1.0)
    assert (missed.result, missed.expected) == ("MISSED", "FAIL ports h2 -> h1; warn mtu h3")
    assert missed.where == ("h1", "h2", "h3")


def test_texts() -> None:
    assert text_of(BLOCKED) == "FAIL ports h2 -> h1"
    assert text_of(row("reboot", ["h1", "h2"], "not run")) == "NOT RUN reboot h1, h2"
    assert alarms_of_clean([PASSED, ABSENT, WARNED]) == ("warn mtu h3: timeout",)
    assert judged(NONE, [], VALUES, 1.0).expected == "nothing"


def test_counts_of_trials() -> None:
    clean = Trial(0, "none, level quick", ("h1",), "nothing", "mtu", "clean", ("mtu",))
    checked = [judged(PORTS, [BLOCKED], VALUES, 1.0), judged(PORTS, [], VALUES, 1.0), judged(NONE, [], VALUES, 1.0)]
    trials = [clean, *checked, without(TWICE, "not made", "no iptables"), without(TWICE, "NOT RUN", "no answer")]
    assert counts(trials, 4) == {
        "defects": 3, "kinds": 2, "detected": 2, "missed": 1, "not_made": 1, "not_run": 1, "mended": 4,
        "false_alarms": 1,
    }  # fmt: skip
    assert [trial.is_right for trial in trials] == [False, True, False, True, True, False]
