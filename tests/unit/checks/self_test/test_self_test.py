"""The order of a self-test: clean hosts, then each defect is made, checked, mended and checked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ddp_play.checks.fleet import FULL
from ddp_play.checks.self_test.defect import Defect
from ddp_play.checks.self_test.lab_hosts import NotDone
from ddp_play.checks.self_test.self_test import SelfTest

MTU = Defect(8, "mtu", "seed mtu", "mend mtu", "mtu", ("h2",))
SLOW = Defect(1, "slow", "seed slow", "mend slow", "network", ("h3",), level=FULL, options=("--within", "20s"))
ODD = {"result": "fail", "value": "1400", "broken": False}


@dataclass
class Hosts:
    """Hosts whose checks find the defect that is on them. `refuses`: a command that fails; `blind`: finds nothing."""

    refuses: str = ""
    blind: bool = False
    sticks: bool = False
    did: list[str] = field(default_factory=list)
    has: list[Defect] = field(default_factory=list)

    @property
    def values(self) -> dict[str, str]:
        return {}

    def run(self, command: str) -> None:
        self.did.append(command)
        if command == self.refuses:
            raise NotDone("no such program")
        self.has += [defect for defect in (MTU, SLOW) if defect.seed == command]

    def mend(self, defect: Defect) -> None:
        self.did.append(defect.mend)
        self.has = self.has if self.sticks else []

    def check(self, level: str, hosts: Sequence[str], options: Sequence[str]) -> tuple[list[dict[str, Any]], float]:
        self.did.append(" ".join(["check", level, str(len(hosts)), *options]))
        if self.refuses == "check" and self.has:
            raise NotDone("no answer")
        rows = [{**ODD, "check": defect.check, "where": list(defect.where)} for defect in self.has]
        return ([] if self.blind else rows), 1.0


def test_every_defect_is_made_checked_mended_and_checked_again() -> None:
    hosts = Hosts()
    test = SelfTest(hosts)
    assert [trial.result for trial in test.run([MTU, SLOW])] == ["clean", "clean", "detected", "detected"]
    assert hosts.did == [
        "check quick 3", "check full 4",
        "seed mtu", "check quick 3", "mend mtu", "check quick 3",
        "seed slow", "check full 4 --within 20s", "mend slow", "check full 4",
    ]  # fmt: skip
    assert test.is_right
    assert (test.counts()["detected"], test.counts()["mended"]) == (2, 2)


def test_a_defect_that_is_not_found_or_remains_is_not_right() -> None:
    missed = SelfTest(Hosts(blind=True))
    assert [trial.result for trial in missed.run([MTU])] == ["clean", "MISSED"]
    assert not missed.is_right
    remains = SelfTest(Hosts(sticks=True))
    (_, trial) = remains.run([MTU])
    assert trial.result == "detected"
    assert trial.false_alarms == ("after it was mended: FAIL mtu h2: 1400",)
    assert not remains.is_right


def test_what_cannot_be_made_is_mended_and_said() -> None:
    hosts = Hosts(refuses="seed mtu")
    test = SelfTest(hosts)
    (_, trial) = test.run([MTU])
    assert (trial.result, trial.found) == ("not made", "no such program")
    assert hosts.did[-1] == "mend mtu"
    assert test.is_right


def test_a_check_without_an_answer_is_not_run_and_its_defect_is_mended() -> None:
    hosts = Hosts(refuses="check")
    test = SelfTest(hosts)
    (_, trial) = test.run([MTU])
    assert (trial.result, trial.found) == ("NOT RUN", "no answer")
    assert hosts.did[-1] == "mend mtu"
    assert not test.is_right
