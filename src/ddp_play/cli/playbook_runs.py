"""What the verbs that run a playbook on hosts share: plan, run, batches, report."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.paths import write_text
from ddp_play.cli import console
from ddp_play.cli.provisioning_view import PAGE, phase_view, show_batches, show_plan, show_report
from ddp_play.provisioning.playbook_run import plan_playbook, run_playbook
from ddp_play.provisioning.rolling import run_batches
from ddp_play.report.provisioning_page import provisioning_page
from ddp_play.report.table_page import table_page

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.errors import DdpPlayError
    from ddp_play.provisioning.playbook_run import PlaybookPlan, Report
    from ddp_play.provisioning.rolling import Roll, Rolling


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
    """Print the plan, run it with a live view, write the page of the report, and return it."""
    show_plan(planned)
    with phase_view() as view:
        report = run_playbook(planned, passwords, AnsibleRunner(), view)
    try:
        write_text(report.directory / PAGE, table_page(provisioning_page(report)))
    except OSError as error:  # a full disk: what was done on the hosts is to be told all the same
        console.note(f"no page of this: {report.directory / PAGE}: {error.strerror}", style="bold yellow")
    return report


class Following(Protocol):
    """What follows a playbook that succeeded: what it found, to be printed after the report, and its error."""

    def show(self) -> None:
        """Print it."""

    def to_json(self) -> dict[str, Any]:
        """What it adds to the document of the report, or replaces there."""

    def error(self) -> DdpPlayError | None:
        """Why the command does not succeed after all."""


Then = Callable[[tuple[str, ...]], Following | None]


def no_more(_new: tuple[str, ...]) -> None:
    """Nothing follows."""


def run_and_report(planned: PlaybookPlan, passwords: Passwords, *, as_json: bool, then: Then = no_more) -> None:
    """Run it and print the report. `then` is called with new hosts, if all succeeded. Raises the first error."""
    report = run(planned, passwords)
    if report.cells and not as_json:
        show_report(report)
    _conclude(planned, report, new=report.new, as_json=as_json, then=then)


def _conclude(planned: PlaybookPlan, report: Report | Roll, *, new: tuple[str, ...], as_json: bool, then: Then) -> None:
    error = report.error()
    following = then(new) if new and error is None else None
    if as_json:
        more = following.to_json() if following is not None else {}
        console.as_json({**report.to_json(), "phases": [phase.to_json() for phase in planned.phases], **more})
    elif following is not None:
        following.show()
    error = error or (following.error() if following is not None else None)
    if error is not None:
        raise error


def run_in_batches(
    planned: PlaybookPlan, passwords: Passwords, rolling: Rolling, *, as_json: bool, then: Then = no_more
) -> None:
    """Run it batch by batch and print a report of each. Raises the error of the first batch that has one.

    `then`: as `run_and_report` has it, after the last batch.
    """
    if not rolling.wanted:
        run_and_report(planned, passwords, as_json=as_json, then=then)
        return
    show_batches(rolling.batches(planned))

    def run_batch(batch: PlaybookPlan) -> Report:
        report = run(batch, passwords)
        if report.cells and not as_json:
            show_report(report)
        return report

    roll = run_batches(planned, rolling, passwords, run_batch)
    new = tuple(host for report in roll.reports for host in report.new)
    _conclude(planned, roll, new=new, as_json=as_json, then=then)
