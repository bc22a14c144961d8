"""Lines of `ddp-play check` about the hosts' own records."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from ddp_play.checks.record_findings import COMPARED, DAY, EXPIRED
from ddp_play.cli import console
from ddp_play.provisioning.change_listing import host_ranges

if TYPE_CHECKING:
    from ddp_play.checks.own_records import OwnRecords
    from ddp_play.checks.record_findings import ComparedHost

LABEL = "records  "


def show_records(records: OwnRecords) -> None:
    """How hosts are compared with their records, and which have a new one. Nothing if there is neither."""
    width = console.out.width if console.out.is_terminal else console.UNLIMITED
    lines = [text for row in records.compared if (text := _compared(row))]
    if records.recorded:
        lines.append(f"recorded: {host_ranges(records.recorded)}")
    lines += [f"not recorded: {host}: {why}" for host, why in records.refused]
    for line in lines:
        for text in textwrap.wrap(line, width, initial_indent=LABEL, subsequent_indent=" " * len(LABEL)):
            console.line(text)


def _compared(row: ComparedHost) -> str:
    if row.state == EXPIRED:
        return f"{row.host}: that of {row.made[:DAY]} expired: {row.reason}"
    if row.state != COMPARED:
        return ""
    far = row.farthest
    number = f"{len(row.figures)} figure{'' if len(row.figures) == 1 else 's'}"
    text = f"{row.host}: {number} against {row.made[:DAY]}"
    return text if far is None else f"{text}; farthest: {far.text()}"
