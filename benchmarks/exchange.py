"""Speed of the gradient exchange on a lab of two hosts: `python benchmarks/exchange.py shaped`.

shaped      all-reduce of 64 MiB compared with plain TCP in the same run, on links shaped to --rates (tc tbf)
unshaped    the same all-reduce in rank containers compared with bare processes over ssh, in ABBA order
steps       a training step in rank containers compared with bare processes, both running and taking turns
samples     a training step in rank containers while its host is sampled compared with a second later
collectives wall time of `ddp-play collectives` on three hosts

It prints a table and writes all results as JSON. The figures are valid only on an otherwise idle machine.
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

from exchange_samples import sample_ratios
from exchange_turns import turns
from exchange_ways import (
    BenchLab,
    bare_allreduce,
    bench_share,
    collectives,
    container_allreduce,
)
from machine import describe, interrupt_on_signals
from rich.console import Console
from rich.table import Table
from staging import IMAGE, command, fetch, stage

from ddp_play.images.ssh_access import resolve

# Two-sided 95 % quantiles of Student's t by degrees of freedom; other degrees take the next lower row.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 11: 2.20, 14: 2.14, 19: 2.09}
T95 |= {24: 2.06, 29: 2.05, 39: 2.02, 59: 2.00, 119: 1.98}
SHARE_GOAL = 0.95
OVERHEAD_GOAL = 0.015
# Half the width of the interval with which the overhead counts as measured, and with which that of samples does.
HALF_GOAL = 0.01
SAMPLES_HALF_GOAL = 0.005
COLLECTIVES_GOAL_S = 180.0
console = Console()


@dataclass(frozen=True)
class Interval:
    """Mean of ratios, and half the width of its 95 % confidence interval."""

    mean: float
    half: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} +- {self.half:.4f}"


def main() -> None:
    """Start a lab, measure, remove the lab, write the results; exit code 1 if the goal is not reached."""
    options = parse()
    interrupt_on_signals()
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
    console.print(f"results in {options.json}")
    sys.exit(0 if found["reached"] else 1)


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=sorted(MEASURES))
    parser.add_argument("--rates", type=lambda text: text.split(","), default=["1gbit", "2.5gbit"])
    parser.add_argument("--repeats", type=int, default=3, help="measurements per rate, for shaped")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of A and B, an even number: default 10")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the training runs, for steps and samples")
    parser.add_argument("--batch-size", type=int, default=512, help="samples of both ranks per step: 64 take 8 ms")
    parser.add_argument("--backends", default="gloo", help="for collectives: gloo,mpi")
    parser.add_argument("--json", type=Path, default=Path("exchange-benchmark.json"))
    options = parser.parse_args()
    if options.pairs < 2 or options.pairs % 2:
        parser.error("--pairs must be even and at least 2: ABBA is two pairs")
    return options


def shaped(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Share of the bandwidth of plain TCP that the all-reduce reaches, at every rate."""
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
    """Ratio of the GB/s in containers under ddp-play to the GB/s of bare processes: 1 is no loss."""
    found = pairs(options.pairs, lab, container_allreduce, bare_allreduce)
    ratio = interval([ours / bare for ours, bare in found])
    console.print(f"ddp-play / bare, all-reduce of 64 MiB: {ratio} over {len(found)} pairs (goal: {SHARE_GOAL})")
    return {"pairs_gb_s": found, "ratio": vars(ratio), "reached": ratio.mean >= SHARE_GOAL}


def steps(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Ratio of the seconds per step in containers to those of bare processes: 1 is no overhead."""
    found = turns(lab, options.batch_size, options.minutes * 60)
    judged = _step_ratio("containers / bare", [ours / bare for ours, bare in found], 1 + OVERHEAD_GOAL, HALF_GOAL)
    return {"batch_size": options.batch_size, "pairs_s": found, **judged}


def samples(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Ratio of the seconds per step while hosts are sampled to those without samples: 1 is no overhead."""
    found = sample_ratios(lab, options.batch_size, options.minutes * 60)
    judged = _step_ratio("samples / none", found, 1 + SAMPLES_HALF_GOAL, SAMPLES_HALF_GOAL)
    return {"batch_size": options.batch_size, "ratios": found, **judged}


def _step_ratio(what: str, ratios: list[float], most: float, half: float) -> dict[str, Any]:
    """Print the mean ratio, and whether it is at most this and known well enough."""
    ratio = interval(ratios)
    console.print(f"{what}, step: {ratio}, {len(ratios)} times (goal: at most {most}, +- {half} or less)")
    return {"ratio": vars(ratio), "reached": ratio.mean <= most and ratio.half <= half}


def collective_table(lab: BenchLab, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds from the command to its table of results."""
    started = time.monotonic()
    document = collectives(lab, options.backends.split(","))
    took = time.monotonic() - started
    cells = [row["status"] for run in document["runs"] for row in run["result"].get("collectives", ())]
    counts = {status: cells.count(status) for status in sorted(set(cells))}
    complete = bool(cells) and all(run["result"] for run in document["runs"])
    console.print(f"{options.backends}: {took:.1f} s, {counts} (goal: below {COLLECTIVES_GOAL_S:.0f} s)")
    return {"seconds": took, "counts": counts, "reached": complete and took < COLLECTIVES_GOAL_S}


MEASURES = {"shaped": shaped, "unshaped": unshaped, "steps": steps, "samples": samples, "collectives": collective_table}


def pairs(count: int, lab: BenchLab, ours: Any, bare: Any) -> list[tuple[float, float]]:
    """Measurements in the order A B B A, so a drift over time affects both equally; one (A, B) per pair."""
    found: list[tuple[float, float]] = []
    for number in range(count):
        order = (ours, bare) if number % 2 == 0 else (bare, ours)
        values = {way: way(lab, number) for way in order}
        found.append((values[ours], values[bare]))
        console.print(f"pair {number + 1}: {values[ours]:.5f} / {values[bare]:.5f}")
    return found


def interval(values: list[float]) -> Interval:
    """Mean and 95 % confidence interval of the ratios of all pairs, by Student's t."""
    degrees = len(values) - 1
    t = T95.get(degrees) or next((T95[known] for known in sorted(T95, reverse=True) if known < degrees), 12.71)
    return Interval(statistics.mean(values), t * statistics.stdev(values) / math.sqrt(len(values)))


if __name__ == "__main__":
    main()
