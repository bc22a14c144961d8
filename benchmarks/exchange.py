"""What the exchange of gradients reaches, on a lab of two hosts: `python benchmarks/exchange.py shaped`.

shaped      all-reduce of 64 MiB beside plain TCP in the same run, on links shaped to --rates (tc tbf on the hosts)
unshaped    the same all-reduce in rank containers under ddp-play beside bare processes over ssh, in ABBA order
steps       time of a training step in rank containers beside bare processes, in ABBA order, with the 95 % interval
collectives wall time of `ddp-play collectives` on three hosts

Prints a table and keeps everything as JSON. Figures count on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exchange_ways import (
    BenchLab,
    bare_allreduce,
    bare_steps,
    bench_share,
    collectives,
    container_allreduce,
    container_steps,
)
from machine import describe
from rich.console import Console
from rich.table import Table
from staging import IMAGE, command, fetch, stage

from ddp_play.images.reach import resolve

# Two-sided 95 % of Student's t, by degrees of freedom; beyond the table the normal distribution is near enough.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 11: 2.20, 14: 2.14, 19: 2.09}
SHARE_GOAL = 0.95
OVERHEAD_GOAL = 0.03
COLLECTIVES_GOAL_S = 180.0
console = Console()


@dataclass(frozen=True)
class Interval:
    """Mean of ratios and half the width of its 95 % interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} +- {self.half:.4f}"


def main() -> None:
    """Bring up a lab, measure, print, keep, take it down."""
    options = parse()
    num_hosts = 3 if options.what == "collectives" else 2
    name = f"exchange{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="ddp-play-exchange-", dir="/var/tmp") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        inventory = Path(scratch, "lab", name, "inventory", "hosts.yml")
        try:
            command("lab", "up", "--name", name, "--hosts", str(num_hosts))
            command("image", "build", "--slim", "--tag", IMAGE)
            command("image", "load", "-i", str(inventory), "--image", IMAGE)
            fetch(Path(scratch, "packages"))
            stage(str(inventory), Path(scratch, "packages"))
            lab = BenchLab(str(inventory), Path(scratch), IMAGE, tuple(resolve(str(inventory))), name)
            found = MEASURES[options.what](lab, options)
        finally:
            command("lab", "down", "--name", name)
    report = {"machine": describe(), "what": options.what, **found}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"kept in {options.json}")
    sys.exit(0 if found["reached"] else 1)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MEASURES))
    parser.add_argument("--rates", type=lambda text: text.split(","), default=["1gbit", "2.5gbit"])
    parser.add_argument("--repeats", type=int, default=3, help="of every rate, for shaped")
    parser.add_argument("--pairs", type=int, default=10, help="of A and B, an even number: 10")
    parser.add_argument("--steps", type=int, default=600, help="training steps in each run of a pair")
    parser.add_argument("--backends", default="gloo", help="for collectives: gloo,mpi")
    parser.add_argument("--json", type=Path, default=Path("exchange-benchmark.json"))
    options = parser.parse_args()
    if options.pairs < 2 or options.pairs % 2:
        parser.error("--pairs must be even, and at least 2: ABBA makes two")
    return options


def shaped(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """The share of plain TCP at every rate."""
    table = Table("rate", "all-reduce GB/s", "plain TCP GB/s", "share", f"median >= {SHARE_GOAL}")
    rows, reached = [], True
    for rate in options.rates:
        lab.shape(rate)
        try:
            found = [bench_share(lab, f"{rate.replace('.', '-')}-{number}") for number in range(options.repeats)]
        finally:
            lab.shape("")
        share = statistics.median(row["of_wire"] for row in found)
        reached = reached and share >= SHARE_GOAL
        figures = [statistics.median(row[name] for row in found) for name in ("busbw_gb_s", "wire_gb_s")]
        table.add_row(rate, *(f"{one:.4f}" for one in figures), f"{share:.4f}", str(share >= SHARE_GOAL))
        rows.append({"rate": rate, "runs": found, "share": share})
    console.print(table)
    return {"rates": rows, "reached": reached}


def unshaped(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """GB/s under ddp-play in containers, divided by GB/s of bare processes: 1 is no loss."""
    found = pairs(options.pairs, lab, container_allreduce, bare_allreduce)
    ratio = interval([ours / bare for ours, bare in found])
    console.print(f"ddp-play / bare, all-reduce of 64 MiB: {ratio} over {len(found)} pairs (wanted: {SHARE_GOAL})")
    return {"pairs_gb_s": found, "ratio": vars(ratio), "reached": ratio.mean >= SHARE_GOAL}


def steps(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds a step in containers, divided by seconds a step of bare processes: 1 is no overhead."""
    lab = lab.with_steps(options.steps)
    found = pairs(options.pairs, lab, container_steps, bare_steps)
    ratio = interval([ours / bare for ours, bare in found])
    console.print(f"containers / bare, median step: {ratio} over {len(found)} pairs (wanted: 1 +- {OVERHEAD_GOAL})")
    return {"pairs_s": found, "ratio": vars(ratio), "reached": ratio.mean <= 1 + OVERHEAD_GOAL}


def collective_table(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from the command to the table."""
    started = time.monotonic()
    document = collectives(lab, options.backends.split(","))
    took = time.monotonic() - started
    cells = [row["status"] for run in document["runs"] for row in run["result"].get("collectives", ())]
    counts = {status: cells.count(status) for status in sorted(set(cells))}
    complete = bool(cells) and all(run["result"] for run in document["runs"])
    console.print(f"{options.backends}: {took:.1f} s, {counts} (wanted: below {COLLECTIVES_GOAL_S:.0f} s)")
    return {"seconds": took, "counts": counts, "reached": complete and took < COLLECTIVES_GOAL_S}


MEASURES = {"shaped": shaped, "unshaped": unshaped, "steps": steps, "collectives": collective_table}


def pairs(count: int, lab: BenchLab, ours: Any, bare: Any) -> list[tuple[float, float]]:
    """A B B A, A B B A, ...: what drifts over time hits both alike."""
    found: list[tuple[float, float]] = []
    for number in range(count):
        order = (ours, bare) if number % 2 == 0 else (bare, ours)
        values = {way: way(lab, number) for way in order}
        found.append((values[ours], values[bare]))
        console.print(f"pair {number + 1}: {values[ours]:.5f} / {values[bare]:.5f}")
    return found


def interval(values: list[float]) -> Interval:
    """Student's t over the ratios of the pairs."""
    degrees = len(values) - 1
    t = T95.get(degrees) or next((T95[known] for known in sorted(T95, reverse=True) if known < degrees), 12.71)
    return Interval(statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values)))


if __name__ == "__main__":
    main()
