"""Rules of a site's firewall: the calls are made in their order, and the first that fails ends the module."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.modules import firewall_rules

from tests.unit.modules.stand_in import Answer, StandIn, accepted, documented, play

STEPS = [
    {"kind": "add", "argv": ["firewall-cmd", "--zone=public", "--add-rich-rule=A"], "what": ["A (firewalld)"]},
    {"kind": "add", "argv": ["firewall-cmd", "--zone=work", "--add-rich-rule=A"], "what": ["A (firewalld)"]},
    {"kind": "remove", "argv": ["ufw", "delete", "allow", "22"], "what": ["B (ufw)"]},
]
ROWS = [
    {"kind": "add", "what": "firewall rule A (firewalld)", "whose": "new"},
    {"kind": "remove", "what": "firewall rule B (ufw)", "whose": "ours"},
]


def test_the_argument_spec_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, firewall_rules) == documented(firewall_rules)


@pytest.mark.parametrize(
    ("steps", "check", "num_calls", "rows"),
    [([], False, 0, []), (STEPS, False, 3, ROWS), (STEPS, True, 0, ROWS)],
)
def test_the_calls_are_made_but_in_check_mode(
    monkeypatch: pytest.MonkeyPatch,
    steps: list[dict[str, Any]],
    check: bool,
    num_calls: int,
    rows: list[dict[str, str]],
) -> None:
    host = StandIn(steps=steps)
    host.check_mode = check
    answer = play(monkeypatch, firewall_rules, host)
    assert host.asked == [step["argv"] for step in steps][:num_calls]
    assert answer == {"failed": False, "changed": bool(steps), "ddp_changes": rows}


def test_a_failure_names_the_rule_and_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(argv: list[str]) -> Answer:
        return (1, "", "ERROR: no\n") if "--zone=work" in argv else (0, "", "")

    host = StandIn(refuse, steps=STEPS)
    answer = play(monkeypatch, firewall_rules, host)
    assert answer["failed"]
    assert answer["msg"] == (
        "the firewall does not add A (firewalld). 'firewall-cmd --zone=work --add-rich-rule=A' failed (exit code 1): "
        "ERROR: no"
    )
    assert len(host.asked) == 2
