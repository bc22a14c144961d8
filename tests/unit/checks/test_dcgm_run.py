"""Hosts that DCGM diagnoses, at which level, and within which time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.dcgm_run import ANSWER_S, LEVELS, STOP_S, diagnose, with_dcgm
from ddp_play.checks.fleet import BURN_IN, FULL
from tests.unit.build import gpus
from tests.unit.checks.fleets import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = {"dcgmi": {"value": "/usr/bin/dcgmi"}}
FACTS = {f"h{number}": facts(number, gpus=gpus(2)) for number in (1, 2)}


@dataclass
class Talk:
    """Hosts that answer with their name, and a check with so many seconds left."""

    left_s: float = 1e9
    lost: dict[str, str] = field(default_factory=dict)
    orders: dict[str, Any] = field(default_factory=dict)
    limit_s: float = 0.0

    def has_time(self, least_s: float) -> bool:
        return self.left_s >= least_s

    def cap_s(self, limit_s: float) -> float:
        return min(limit_s, self.left_s - 2.0)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert kind == "check_dcgm"
        self.orders, self.limit_s = dict(fields), limit_s
        return {host: {"diagnostic": {"value": host}} for host in fields}


def test_hosts_with_gpus_and_dcgmi_are_diagnosed() -> None:
    known = {**FACTS, "h3": facts(3), "h4": facts(4, gpus=gpus(1)), "h5": facts(5, gpus=gpus(1))}
    readings = {
        "h1": HERE,
        "h2": {"dcgmi": {"problem": "no answer within 8 s"}},
        "h3": HERE,
        "h4": {"dcgmi": {"value": ""}},
    }
    assert with_dcgm(known, readings) == ("h1",)
    assert with_dcgm({}, {}) == ()


@pytest.mark.parametrize(("level", "number", "limit_s"), [(FULL, 1, 90.0), (BURN_IN, 2, 300.0)])
def test_the_level_of_the_check_decides_about_that_of_the_diagnostic(level: str, number: int, limit_s: float) -> None:
    talk = Talk()
    found = diagnose(talk, FACTS, ["h1", "h2"], level)
    assert talk.orders == {host: {"level": number, "limit_s": limit_s, "stop_s": STOP_S} for host in FACTS}
    assert talk.limit_s == limit_s + STOP_S + ANSWER_S
    assert found == {host: {"diagnostic": {"value": host}, "level": number} for host in FACTS}


def test_it_takes_what_is_left_and_of_a_burn_in_half() -> None:
    for level, left_s, part_s in ((FULL, 62.0, 60.0), (BURN_IN, 402.0, 200.0)):
        talk = Talk(left_s)
        diagnose(talk, FACTS, ["h1"], level)
        assert talk.orders["h1"]["limit_s"] == pytest.approx(part_s - STOP_S)


@pytest.mark.parametrize("level", [FULL, BURN_IN])
def test_without_time_for_it_nothing_is_asked(level: str) -> None:
    talk = Talk((LEVELS[level].least_s + STOP_S) / LEVELS[level].share - 1.0)
    assert diagnose(talk, FACTS, ["h1"], level) == {}
    assert talk.orders == {}


def test_no_host_is_no_order_and_no_question_about_time() -> None:
    talk = Talk(0.0)
    talk.has_time = lambda least_s: pytest.fail(f"{least_s} s for nobody")  # type: ignore[method-assign]
    assert diagnose(talk, FACTS, [], FULL) == {}


def test_two_names_of_one_machine_are_diagnosed_once_and_a_lost_one_not_at_all() -> None:
    known = {name: facts(at, gpus=gpus(2), machine="boot") for at, name in enumerate(("h1", "h2"), 1)}
    talk = Talk(lost={"h3": "gone"})
    found = diagnose(talk, {**known, "h3": facts(3, gpus=gpus(1))}, ["h1", "h2", "h3"], FULL)
    assert list(talk.orders) == ["h1"]
    assert found["h1"] == found["h2"]
    assert set(found) == {"h1", "h2"}
