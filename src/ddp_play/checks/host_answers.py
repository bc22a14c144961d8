"""What each host of an inventory answered to `ddp-play doctor -i`: its facts, or why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.host_problems import problem_from_text
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.run.host_sweep import sweep_hosts

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.planning.host_facts import HostFacts


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """One host; without `facts` it could not be asked, and `problem` and `hint` say why and what helps."""

    host: str
    facts: HostFacts | None = None
    root_problem: str = ""  # why the user cannot become root without a password
    problem: str = ""
    hint: str = ""


def ask_hosts(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner) -> tuple[HostAnswer, ...]:
    """The answers of all hosts, by name. Raises what Ansible says if it could not read the inventory."""
    answers = sweep_hosts(request, passwords, runner, "facts", {})
    return tuple(answer_of(host, row) for host, row in sorted(answers.items()))


def answer_of(host: str, row: dict[str, Any]) -> HostAnswer:
    """One host's row of a sweep."""
    if "problem" in row:
        message, _, hint = row["problem"].partition("\n  -> ")
        if not hint:  # Ansible's own words, of a host that was not reached
            found = problem_from_text(host, message.removeprefix("Task failed: "), host)
            message, hint = found["message"], found["hint"]
        return HostAnswer(host, problem=message.strip(), hint=hint.strip())
    return HostAnswer(host, facts_from_json(host, row), root_problem=str(row.get("root_rights") or ""))
