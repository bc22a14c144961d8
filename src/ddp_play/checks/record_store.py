"""Files of the hosts' own records, on the controller: one for each machine."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import home, make_directory, read_json, write_json
from ddp_play.checks.host_records import Record, identities, recorded_rates

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ddp_play.checks.fleet import Fleet


def records_dir() -> Path:
    """Directory with one file for each machine."""
    return home() / "records"


def prepare() -> None:
    """Make the directory. OSError where that is not possible: nobody wants to hear that after the measurements."""
    make_directory(records_dir())


def path_of(machine: str) -> Path:
    """File of a machine. Its id comes from the host, so it is no part of the name."""
    return records_dir() / f"{hashlib.sha256(machine.encode()).hexdigest()[:32]}.json"


def load(fleet: Fleet) -> dict[str, Record]:
    """Records of these hosts, by machine id. A file that cannot be read is as none."""
    found = {}
    for own in identities(fleet).values():
        record = Record.from_json(read_json(path_of(own.machine)))
        if record is not None and record.machine == own.machine:
            found[own.machine] = record
    return found


def save(records: Iterable[Record]) -> None:
    """Write these records, each in place of the machine's earlier one."""
    for record in records:
        write_json(path_of(record.machine), record.to_json())


def known_mbps(fleet: Fleet) -> dict[tuple[str, str], float]:
    """Mb/s by direction, as recorded: what the network matrix compares with."""
    return {way: float(row["mbps"]) for way, row in recorded_rates(fleet, load(fleet)).items()}
