"""`ddp-play doctor`: what the controller needs, whether it is there, and the command that helps."""

from __future__ import annotations

import textwrap
from pathlib import Path

import typer

from ddp_play.checks import controller_facts, controller_findings
from ddp_play.checks.finding import Finding, Status, count_by_status, exit_class, exit_code
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary

STYLES = {Status.OK: "green", Status.UNCHECKED: "dim", Status.WARN: "yellow", Status.FAIL: "bold red"}
STATUS_WIDTH, CHECK_WIDTH = 13, 18
INDENT = " " * 4


def doctor(*, as_json: options.Json = False) -> None:
    """Check this machine: what ddp-play needs here, and the command that helps where something is missing.

    What could not be checked is said, and never counts as ok. Failures come last. The exit code is
    1 if something failed.

    [bold]Examples[/]

      ddp-play doctor

      ddp-play doctor --json | jq '.findings[] | select(.status == "fail")'
    """
    with error_boundary():
        findings = controller_findings.judge(controller_facts.collect(str(Path.cwd())))
        if as_json:
            rows = [finding.to_json() for finding in findings]
            console.as_json({"exit_class": exit_class(findings), "findings": rows})
        else:
            show(findings)
        if code := exit_code(findings):
            raise typer.Exit(code)


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
    text = f"{finding.check:<{CHECK_WIDTH}}{finding.value}"
    lines = textwrap.wrap(head + text, width, subsequent_indent=INDENT, break_on_hyphens=False, drop_whitespace=False)
    for line in lines or [head + text]:
        console.line(line.rstrip(), style=STYLES[finding.status])
    if finding.status in (Status.OK, Status.UNCHECKED):
        return
    for line in textwrap.wrap(finding.why, width, initial_indent=INDENT, subsequent_indent=INDENT):
        console.line(line)
    if finding.command:
        console.line(f"{INDENT}-> {finding.command}")
