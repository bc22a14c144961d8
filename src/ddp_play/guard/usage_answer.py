"""Answer of a host to `ddp-play usage`: what each run has used of it in a time that ends now."""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Dict, List

from . import gpus, processes
from .protocol import split_run_key
from .run_directory import bases
from .usage_record import NAME, OF_GPUS, Row, number, rows_of

MAX_BYTES = 64 << 20
MAX_RUNS = 20_000  # beyond it the smallest are one row


def answer(since_s: float) -> Dict[str, Any]:
    """`runs`: rows with `run`, `token`, `owner`, `host`, `attempts`, `s` and `slot_s` (slots times seconds);
    `gpu_s` and `gpu_busy_s`: GPU seconds of which samples tell the utilization, and how many of these were busy.

    `record`: the file, which hosts of the inventory that are one machine share; `oldest_s`: age of its first
    row; `gpus`: number of NVIDIA GPUs.
    """
    rows, record = [], ""
    for base in bases():
        with contextlib.suppress(OSError), open(str(base / NAME), "rb") as file:
            found = os.fstat(file.fileno())
            record = record or "%d:%d" % (found.st_dev, found.st_ino)
            rows += rows_of(file.read(MAX_BYTES))
    now = time.time()
    oldest_s = max((now - row["from"] for row in rows), default=None)
    return {
        "runs": totals(rows, now - since_s, now),
        "record": "%s:%s" % (processes.boot_id(), record) if record else "",
        "oldest_s": oldest_s,
        "gpus": len(gpus.pci_addresses()),
    }


def totals(rows: List[Row], since: float, until: float) -> List[Dict[str, Any]]:
    """What each run has used between two times in Unix seconds, the largest first."""
    found: Dict[Any, Dict[str, Any]] = {}
    for row in rows:
        seconds = min(row["from"] + row["s"], until) - max(row["from"], since)
        if seconds <= 0:
            continue
        names = [str(row.get(name) or "") for name in ("run", "owner", "host")]
        total = found.setdefault(tuple(names), _empty(*names))
        total["numbers"].add(str(row.get("attempt")))
        total["s"] += seconds
        total["slot_s"] += seconds * row["slots"]
        for name in OF_GPUS:
            total[name] += number(row, name) * seconds / row["s"]
    ordered = sorted(found.values(), key=lambda total: -float(total["slot_s"]))
    for total in ordered:
        total["attempts"] = len(total.pop("numbers"))
    return _limited(ordered)


def _empty(run: str, owner: str, host: str) -> Dict[str, Any]:
    name, token = split_run_key(run)
    sums = dict.fromkeys(("s", "slot_s", *OF_GPUS), 0.0)
    return {"run": name, "token": token, "owner": owner, "host": host, "numbers": set(), **sums}


def _limited(ordered: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    others = ordered[MAX_RUNS:]
    if not others:
        return ordered
    sums = {name: sum(row[name] for row in others) for name in ("attempts", "s", "slot_s", *OF_GPUS)}
    return [*ordered[:MAX_RUNS], {"run": "", "token": "", "owner": "", "host": "", **sums}]
