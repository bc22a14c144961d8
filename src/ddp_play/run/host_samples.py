"""Samples as a host sends them: what has the shape of a row is kept, all else is left out. Pure.

A host may run anything, so names and numbers are limited like those of its frames (`host_frames`).
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ddp_play.guard.sample_thinning import COVERED, HOST_END

if TYPE_CHECKING:
    from collections.abc import Collection

    from ddp_play.guard.protocol import Header

MAX_LINE_BYTES = 32 << 10
MAX_NAMES = 128  # NICs, RDMA ports or GPUs of one host
MAX_NAME = 64
NUMBERS = ("cpu", "memory")
PAIRS_BY_NAME = ("nics", "rdma")
OF_RANK = ("cpu", "memory")
OF_GPU = ("utilization", "memory", "power", "temperature", "sm_clock")
ABOUT, ABOUT_GPU = ("cores", "memory_total"), ("memory_total", "power_limit")

Row = dict[str, Any]


def read_frame(header: Header, payload: bytes, ranks: Collection[int]) -> tuple[Row, list[Row], float]:
    """(what the host told of itself, rows in order, its uptime) of a frame `samples`. `ranks`: those of the host."""
    uptime_s = float(header["uptime"])
    about: Row = {}
    rows = []
    for document in _documents(payload):
        if HOST_END not in document:
            about = _about(document)
        elif row := _row(document, uptime_s, ranks):
            rows.append(row)
    return about, rows, uptime_s


def _documents(payload: bytes) -> list[Row]:
    found = []
    for line in payload.split(b"\n"):
        try:
            document = json.loads(line) if 0 < len(line) <= MAX_LINE_BYTES else None
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            found.append(document)
    return found


def _about(document: Row) -> Row:
    found: Row = {name: document[name] for name in ABOUT if _is_number(document.get(name))}
    gpus = {}
    for number, gpu in _named(document.get("gpus"), dict).items():
        row = {name: gpu[name] for name in ABOUT_GPU if _is_number(gpu.get(name))}
        gpus[number] = {"name": str(gpu["name"])[:MAX_NAME], **row} if "name" in gpu else row
    return {**found, "gpus": gpus} if gpus else found


def _row(document: Row, uptime_s: float, ranks: Collection[int]) -> Row:
    """The row; empty if its time is not one of a host that has run for so long."""
    end, seconds = document[HOST_END], document.get(COVERED)
    if not (_is_number(end) and _is_number(seconds) and seconds <= end <= uptime_s):
        return {}
    row: Row = {HOST_END: end, COVERED: seconds}
    row |= {name: document[name] for name in NUMBERS if _is_number(document.get(name))}
    for name in PAIRS_BY_NAME:
        row[name] = {inner: pair for inner, pair in _named(document.get(name), list).items() if _is_pair(pair)}
    row["disk"] = document.get("disk") if _is_pair(document.get("disk")) else None
    mine = {str(rank) for rank in ranks}
    found = document.get("ranks")
    of_ranks = {name: row for name, row in found.items() if name in mine} if isinstance(found, dict) else {}
    row["ranks"] = _numbers_by_name(of_ranks, OF_RANK)
    row["gpus"] = _numbers_by_name(_named(document.get("gpus"), dict), OF_GPU)
    return {name: value for name, value in row.items() if value not in (None, {})}


def _numbers_by_name(value: Row, names: tuple[str, ...]) -> dict[str, Row]:
    return {
        outer: {name: row[name] for name in names if _is_number(row.get(name))}
        for outer, row in value.items()
        if isinstance(row, dict)
    }


def _named(value: Any, kind: type) -> Row:
    """The first of the object's entries with a name of a device and a value of this kind."""
    if not isinstance(value, dict):
        return {}
    found = {name: inner for name, inner in value.items() if _is_name(name) and isinstance(inner, kind)}
    return dict(list(found.items())[:MAX_NAMES])


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable()


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value < 2**63
