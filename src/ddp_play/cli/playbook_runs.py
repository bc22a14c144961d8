"""What the verbs that run a playbook on hosts share: plan, run, batches, report."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.cli import console
from ddp_play.cli.provisioning_view import phase_view, show_batches, show_plan, show_report
from ddp_play.provisioning.playbook_run import plan_playbook, run_playbook
from ddp_play.provisioning.rolling import run_batches

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.provisioning.playbook_run import PlaybookPlan, Report
    from ddp_play.provisioning.rolling import Rolling


def playbook(name: str) -> str:
    """Path of a playbook. A named playbook without -i takes the inventory of ansible.cfg, not the demo's."""
    return str(collection_root() / "playbooks" / f"{name}.yml")


def as_options(variables: dict[str, Any]) -> tuple[str, ...]:
    """Options of ansible-playbook that set the variables of a verb's own options; none without variables."""
    return ("--extra-vars", json.dumps(variables)) if variables else ()


def with_options(request: PlaybookRequest, own: tuple[str, ...]) -> PlaybookRequest:
    """The request with options of the verb. The user's own --extra-vars come after them, so they have the last word."""
    return dataclasses.replace(request, options=(*own, *request.options))


def plan(request: PlaybookRequest, name: str, passwords: Passwords, tags: list[str] | None = None) -> PlaybookPlan:
    """The playbook on the hosts of the request; `tags` may be lists with commas. Raises UsageError."""
    wanted = tuple(role for value in tags or () for role in value.split(",") if role)
    return plan_playbook(dataclasses.replace(request, tags=wanted), name, passwords)


def checking(planned: PlaybookPlan) -> PlaybookPlan:
    """The plan with Ansible's check mode: roles list what they would change."""
    options = (*planned.request.options, "--check")
    return dataclasses.replace(planned, request=dataclasses.replace(planned.request, options=options))


def run(planned: PlaybookPlan, passwords: Passwords) -> Report:
    """Print the plan, run it with a live view, and return the report."""
    show_plan(planned)
    with phase_view() as view:
        return run_playbook(planned, passwords, AnsibleRunner(), view)


def run_and_report(planned: PlaybookPlan, passwords: Passwords, *, as_json: bool) -> None:
    """Run it and print the report. Raises its error."""
    report = run(planned, passwords)
    if as_json:
        console.as_json({**report.to_json(), "phases": [phase.to_json() for phase in planned.phases]})
    elif report.cells:
        show_report(report)
    error = report.error()
    if error is not None:
        raise error


def run_in_batches(planned: PlaybookPlan, passwords: Passwords, rolling: Rolling, *, as_json: bool) -> None:
    """Run it batch by batch and print a report of each. Raises the error of the first batch that has one."""
    if not rolling.wanted:
        run_and_report(planned, passwords, as_json=as_json)
        return
    show_batches(rolling.batches(planned))

    def run_batch(batch: PlaybookPlan) -> Report:
        report = run(batch, passwords)
        if report.cells and not as_json:
            show_report(report)
        return report

    roll = run_batches(planned, rolling, passwords, run_batch)
    if as_json:
        console.as_json({**roll.to_json(), "phases": [phase.to_json() for phase in planned.phases]})
    error = roll.error()
    if error is not None:
        raise error
