"""Samples of a host in the bundle, `samples/HOST.jsonl`: a header and rows of CPU, memory, networks, disks and GPUs.

Their fields are in docs/how-to/results.md. The supervisor appends rows while the run lasts, and replaces the file when
it thins it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.guard.sample_thinning import ATTEMPT, COVERED, END, thinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["FORMAT", "SampleFile", "file_text", "line_of", "read_samples", "samples_of", "thinned"]

# Field of a header, and its value.
FORMAT = "format"
FORMAT_NUMBER = 1


@dataclass(frozen=True, slots=True)
class SampleFile:
    """What is known of the host itself, and its rows in the order of time."""

    header: dict[str, Any] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)


def read_samples(path: Path) -> SampleFile:
    """The samples in the file. Lines that are no rows are left out; without the file there are none."""
    try:
        data = path.read_bytes()
    except OSError:
        return SampleFile()
    return samples_of(data.split(b"\n"))


def samples_of(lines: Iterable[bytes]) -> SampleFile:
    """The samples in these lines. Lines that are no rows are left out."""
    header: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for line in lines:
        document = _document(line)
        if FORMAT in document:
            header = document
        elif _is_row(document):
            rows.append(document)
    return SampleFile(header, sorted(rows, key=lambda row: float(row[END])))


def _document(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _is_row(document: dict[str, Any]) -> bool:
    """Has it an end, a length and an attempt?"""
    numbers = [document.get(name) for name in (END, COVERED)]
    has_times = all(type(number) in (int, float) and math.isfinite(number) for number in numbers)  # type: ignore[arg-type]
    return has_times and type(document.get(ATTEMPT)) is int


def line_of(document: Mapping[str, Any]) -> bytes:
    """A header or a row as a line of the file."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def file_text(header: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """The whole file."""
    return b"".join(line_of(document) for document in (header, *rows))
