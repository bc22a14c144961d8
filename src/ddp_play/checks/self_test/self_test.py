"""The self-test of the check: each defect is made on hosts of a lab, checked, mended, and checked again."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.checks.self_test.defect import HOSTS_OF_LEVEL
from ddp_play.checks.self_test.lab_hosts import NotDone
from ddp_play.checks.self_test.trial import (
    AFTER,
    CLEAN,
    FAILED,
    NOT_MADE,
    Trial,
    alarms_of_clean,
    counts,
    judged,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ddp_play.checks.self_test.defect import Defect


class Hosts(Protocol):
    """Hosts on which defects are made."""

    @property
    def values(self) -> dict[str, str]:
        """Names and addresses for the commands of defects."""

    def run(self, command: str) -> None:
        """Run a command; NotDone if it fails."""

    def mend(self, defect: Defect) -> None:
        """Mend a defect, as far as that is possible."""

    def check(self, level: str, hosts: Sequence[str], options: Sequence[str]) -> tuple[list[dict[str, Any]], float]:
        """Findings of a check and its seconds; NotDone without an answer."""


@dataclass
class SelfTest:
    """Trials of defects on these hosts, and how many were checked again after they were mended."""

    hosts: Hosts
    trials: list[Trial] = field(default_factory=list)
    num_mended: int = 0

    def run(self, defects: Sequence[Defect]) -> Iterator[Trial]:
        """Each trial when it has ended; those of the clean hosts come first. A defect is mended whatever happens."""
        for level in dict.fromkeys(defect.level for defect in defects):
            yield self._kept(self._clean(level))
        for defect in defects:
            yield self._kept(self._trial(defect))

    @property
    def is_right(self) -> bool:
        """Was each defect found, and nothing else? A defect that could not be made is left out."""
        return all(trial.is_right for trial in self.trials)

    def counts(self) -> Mapping[str, int]:
        """Number of trials by result, and of false alarms."""
        return counts(self.trials, self.num_mended)

    def _kept(self, trial: Trial) -> Trial:
        self.trials.append(trial)
        return trial

    def _clean(self, level: str) -> Trial:
        """The check of hosts that nobody has touched."""
        hosts, name = HOSTS_OF_LEVEL[level], f"none, level {level}"
        try:
            rows, seconds = self.hosts.check(level, hosts, ())
        except NotDone as problem:
            return Trial(0, name, hosts, "nothing", str(problem), FAILED)
        alarms = alarms_of_clean(rows)
        return Trial(0, name, hosts, "nothing", "; ".join(alarms) or "nothing", CLEAN, alarms, round(seconds, 1))

    def _trial(self, defect: Defect) -> Trial:
        with contextlib.ExitStack() as stack:
            stack.callback(self.hosts.mend, defect)
            try:
                self.hosts.run(defect.seed)
            except NotDone as problem:
                return without(defect, NOT_MADE, str(problem))
            try:
                rows, seconds = self.hosts.check(defect.level, defect.hosts, defect.options)
            except NotDone as problem:
                return without(defect, FAILED, str(problem))
        return self._checked_again(defect, judged(defect, rows, self.hosts.values, seconds))

    def _checked_again(self, defect: Defect, trial: Trial) -> Trial:
        """The trial with what the check says of the hosts after they were mended."""
        try:
            rows, _ = self.hosts.check(defect.level, defect.hosts, ())
        except NotDone as problem:
            return replace(trial, false_alarms=(*trial.false_alarms, f"{AFTER}{problem}"))
        self.num_mended += 1
        alarms = tuple(f"{AFTER}{text}" for text in alarms_of_clean(rows))
        return replace(trial, false_alarms=(*trial.false_alarms, *alarms))
