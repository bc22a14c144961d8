"""Plan of the next attempt, from the job and host facts of the start of the run, without lost hosts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.errors import HostNotReady
from ddp_play.planning.host_facts import Problem, facts_from_json
from ddp_play.planning.planner import make_plan
from ddp_play.planning.rank_context import Caller

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.job import Job
    from ddp_play.planning.plan_document import Plan

CALLERS = "caller's environment"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The job and the result of discovery for all hosts of the play: `facts` and `problems` in their JSON form."""

    job: Job
    facts: Mapping[str, dict[str, Any]]
    problems: tuple[dict[str, Any], ...]
    secret_names: tuple[str, ...]
    caller_env: Mapping[str, str]
    secret_env: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Content of facts.json; the job is in job.json."""
        return {
            "facts": dict(self.facts),
            "problems": list(self.problems),
            "secret_names": list(self.secret_names),
            "secret_env": list(self.secret_env),
            "caller_env": dict(self.caller_env),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any], job: Job) -> Fleet:
        """Fleet from the content of facts.json."""
        names, env = tuple(data["secret_names"]), tuple(data.get("secret_env", ()))
        return cls(job, data["facts"], tuple(data["problems"]), names, data["caller_env"], env)

    @property
    def secrets(self) -> frozenset[str]:
        """Names of all secrets that the next attempt needs."""
        return frozenset((*self.secret_names, *self.secret_env))

    def plan(self, *, gone: Mapping[str, str], suspects: Mapping[str, str], wanted: int) -> tuple[Plan, dict[str, str]]:
        """A plan without the lost hosts (`gone`), and all hosts that are retired from the run, with reasons.

        Suspects are retired too if `wanted` hosts remain without them. HostNotReady if too few hosts remain.
        """
        if suspects:
            try:
                made = self._plan({**suspects, **gone}, wanted)
                if len(made.hosts) >= wanted:
                    return made, {**suspects, **gone}
            except HostNotReady:
                pass  # no host can replace the suspects: keep them
        return self._plan(gone, wanted), dict(gone)

    def _plan(self, gone: Mapping[str, str], wanted: int) -> Plan:
        facts = tuple(facts_from_json(name, row) for name, row in self.facts.items() if name not in gone)
        problems = [Problem(**row) for row in self.problems]
        problems += [Problem(name, "retired", f"retired: {why}") for name, why in gone.items() if name in self.facts]
        caller = Caller(dict(self.caller_env), self.secret_names, self.secret_env)
        return make_plan(self.job, facts, tuple(problems), caller, wanted=wanted)


def callers_values(plan: Plan) -> dict[str, str]:
    """Values of bare keys that the plan took from the environment of its caller, for the next plan."""
    env = plan.hosts[0].rank_template.env
    return {var.name: var.value for var in env if var.source.startswith(CALLERS)}
