"""`ddp-play doctor`: what the controller and hosts need, whether it is there, and the command that helps."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.checks import controller_facts, controller_findings
from ddp_play.checks.finding import CONTROLLER, Finding, Status, count_by_status, exit_class, exit_code
from ddp_play.checks.host_answers import ask_hosts
from ddp_play.checks.host_findings import judge_hosts
from ddp_play.checks.job_findings import judge_job
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError
from ddp_play.planning.remedy_text import Asked
from ddp_play.provisioning.change_listing import host_ranges
from ddp_play.provisioning.inventory import load_inventory
from ddp_play.run.job_survey import survey_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.provisioning.inventory import Inventory

SSH = ("ssh client", "ssh login", "ssh keys", "ssh control path")
STYLES = {Status.OK: "green", Status.UNCHECKED: "dim", Status.WARN: "yellow", Status.FAIL: "bold red"}
STATUS_WIDTH, CHECK_WIDTH = 13, 19
INDENT = " " * 4


@options.with_ansible
def doctor(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Check this machine, and with -i the hosts: what ddp-play needs, and the command that helps where it is missing.

    With a playbook also what its job needs there: image, Python, GPUs, shared directory, source, disk.

    It changes nothing. What could not be checked is said, and never counts as ok. Failures come last. The exit code is
    1 if something failed, and 69 if a host could not be asked.

    [bold]Examples[/]

      ddp-play doctor

      ddp-play doctor -i inventory --limit gpu01

      ddp-play doctor train.yml -i inventory

      ddp-play doctor --json | jq '.findings[] | select(.status == "fail")'
    """
    with error_boundary():
        if not (playbook or inventory) and ansible != options.Ansible():
            raise UsageError("Ansible's options are for hosts, and no inventory was given", hint="give -i INVENTORY")
        findings = controller_findings.judge(controller_facts.collect(str(Path.cwd())))
        if playbook or inventory:
            request, passwords = ansible.request(playbook, inventory), ansible.passwords()
            asked = Asked(tuple(inventory or ()), request.options)
            of_hosts = _of_hosts(request, passwords, asked, with_job=bool(playbook))
            findings = (*without_ssh(findings, lambda: load_inventory(request, passwords)), *of_hosts)
        if as_json:
            rows = [finding.to_json() for finding in findings]
            console.as_json({"exit_class": exit_class(findings), "findings": rows})
        else:
            show(findings)
        if code := exit_code(findings):
            raise typer.Exit(code)


def without_ssh(findings: tuple[Finding, ...], load: Callable[[], Inventory]) -> tuple[Finding, ...]:
    """The findings, of which those about ssh do not count where no host of the inventory is reached with it."""
    if not any(_is_about_ssh(row) for row in findings):
        return findings
    inventory = load()
    if any(inventory.value(host, "ansible_connection") != "local" for host in inventory.hosts):
        return findings
    return tuple(_not_needed(row) if _is_about_ssh(row) else row for row in findings)


def _is_about_ssh(finding: Finding) -> bool:
    return finding.check in SSH and finding.status in (Status.WARN, Status.FAIL)


def _not_needed(finding: Finding) -> Finding:
    value = f"{finding.value}; not needed: all hosts of the inventory are local"
    return dataclasses.replace(finding, status=Status.UNCHECKED, value=value, why="", command="")


def _of_hosts(request: PlaybookRequest, passwords: Passwords, asked: Asked, *, with_job: bool) -> tuple[Finding, ...]:
    findings = judge_hosts(ask_hosts(request, passwords, AnsibleRunner()), asked)
    if with_job:
        findings += judge_job(survey_job(request, passwords, AnsibleRunner()), asked)
    return findings


def show(findings: tuple[Finding, ...]) -> None:
    """Print the findings, the worst last, and a line with their numbers."""
    width = console.out.width if console.out.is_terminal else console.UNLIMITED
    for status in Status:
        for finding in findings:
            if finding.status is status:
                _show(finding, width)
    counts = ", ".join(f"{number} {status}" for status, number in count_by_status(findings).items() if number)
    console.line(counts)


def _show(finding: Finding, width: int) -> None:
    """A finding; its command is on a line of its own that is never broken, so that it can be copied."""
    head = f"{finding.status.upper() if finding.status is Status.FAIL else finding.status:<{STATUS_WIDTH}}"
    where = "" if finding.where == (CONTROLLER,) else f"{host_ranges(finding.where)}: "
    text = f"{finding.check:<{CHECK_WIDTH}}{where}{finding.value}"
    lines = textwrap.wrap(head + text, width, subsequent_indent=INDENT, break_on_hyphens=False, drop_whitespace=False)
    for line in lines or [head + text]:
        console.line(line.rstrip(), style=STYLES[finding.status])
    if finding.status in (Status.OK, Status.UNCHECKED):
        return
    for line in textwrap.wrap(finding.why, width, initial_indent=INDENT, subsequent_indent=INDENT):
        console.line(line)
    if finding.command:
        console.line(f"{INDENT}-> {finding.command}")
