"""A check with the hosts' own records: read, compared, and made anew with `--record`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks import record_findings, record_store
from ddp_play.checks.host_findings import merged, with_names

if TYPE_CHECKING:
    from ddp_play.checks.finding import Finding
    from ddp_play.checks.fleet import Fleet
    from ddp_play.checks.record_findings import ComparedHost
    from ddp_play.planning.remedy_text import Asked


@dataclass(frozen=True, slots=True)
class OwnRecords:
    """What the records say. `recorded`: hosts that have a new one; `refused`: why others have none."""

    compared: tuple[ComparedHost, ...]
    findings: tuple[Finding, ...]
    recorded: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Part of the document for `--json`."""
        hosts = [row.to_json() for row in self.compared]
        return {"hosts": hosts, "recorded": list(self.recorded), "refused": dict(self.refused)}


def with_records(
    fleet: Fleet, found: tuple[Finding, ...], *, level: str, record: bool, asked: Asked
) -> OwnRecords:  # fmt: skip
    """Compare all hosts with their records; then, with `record`, write new ones of those that are well."""
    if fleet.terms.network is not None:  # of a job, and perhaps another one than that of the records
        fleet = replace(fleet, matrix=None)
    known = record_store.load(fleet)
    compared = record_findings.compare(fleet, known)
    own = tuple(with_names(row, asked) for row in merged(record_findings.findings(fleet, compared)))
    if not record:
        return OwnRecords(compared, own)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    new, refused = record_findings.new_records(fleet, found, known, (level, now))
    record_store.save(new)
    return OwnRecords(compared, own, tuple(row.name for row in new), tuple(refused.items()))
