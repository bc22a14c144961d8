"""Scope of a check: its level, the time that it has, and what else is asked of the hosts. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ddp_play.checks.fleet import ANY_JOB, BURN_IN, FULL, QUICK
from ddp_play.checks.job_terms import JobTerms, terms_from_json
from ddp_play.checks.time_budget import NO_LIMIT, TimeBudget, from_text


@dataclass(frozen=True, slots=True)
class CheckScope:
    """What one `ddp-play check` asks."""

    level: str = QUICK
    budget: TimeBudget = NO_LIMIT
    record: bool = False  # hosts get new records, and are not judged by the old ones
    outputs: bool = False  # of the hosts' diagnostic programs, for a ticket
    terms: JobTerms = ANY_JOB
    plan: str = ""  # file with the plan of the job whose containers are tried; empty: none are
    progress: str = ""  # directory for what a burn-in has found so far

    @property
    def has_matrix(self) -> bool:
        """Is the network between all pairs of hosts measured?"""
        return self.level in (FULL, BURN_IN)

    def later(self, seconds: float) -> CheckScope:
        """The scope with a later end: for the time in which a password was typed."""
        return replace(self, budget=self.budget.later(seconds))

    def to_text(self) -> str:
        """For an environment variable."""
        own = [self.level, self.budget.to_text(), self.record, self.outputs, self.plan, self.progress]
        return json.dumps([*own, self.terms.to_json()])


def scope_from_text(text: str) -> CheckScope:
    """From `to_text`."""
    level, budget, record, outputs, plan, progress, terms = json.loads(text)
    return CheckScope(level, from_text(budget), record, outputs, terms_from_json(terms), plan, progress)
