"""Checks that are missing on the same hosts for the same reason, said once: a host that hangs lacks all. Pure."""

from __future__ import annotations

from dataclasses import replace

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import names

MANY = 4


def condensed(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """The findings, with one in place of many that differ in nothing but the check."""
    missing: dict[tuple[tuple[str, ...], str], list[Finding]] = {}
    for finding in findings:
        if finding.status is Status.UNCHECKED and finding.broken:
            missing.setdefault((finding.where, finding.value), []).append(finding)
    found: list[Finding] = []
    for finding in findings:
        alike = missing.get((finding.where, finding.value), []) if finding.broken else []
        if len(alike) < MANY:
            found.append(finding)
        elif finding is alike[0]:
            text = f"{finding.value} ({names(row.check for row in alike)})"
            found.append(replace(finding, check=f"{len(alike)} checks", value=text))
    return tuple(found)
