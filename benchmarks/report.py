"""Time and size of the page of a run: `python benchmarks/report.py --hosts 8 --ranks-per-host 8 --hours 24`.

It writes the bundle of a run with metrics and samples of that time, as a run would leave it, and measures
`ddp-play report` of it. It contacts no host. It prints the figures and writes them as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from contenders import PROGRAM
from machine import describe
from rich.console import Console

from tests.unit.report.bundles import ended_bundle, write_metrics, write_samples

SECONDS_GOAL = 2.0
SIZE_GOAL = 2_000_000
# Samples are thinned with time: a day has about as many rows as one each 30 s.
ROW_EVERY_S = 30.0
NAME = "calm-otter-1"
console = Console()


def main() -> None:
    """Write the bundle, measure, print, write the results; exit code 1 if the goal is not reached."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="ddp-play-report-") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        page = write_bundle(options)
        runs = [measure(page) for _ in range(options.repeats)]
        size = page.stat().st_size
    seconds = statistics.median(one["seconds"] for one in runs)
    report = {"machine": describe(), "ranks": options.hosts * options.ranks_per_host, "hours": options.hours,
              "runs": runs, "seconds": seconds, "bytes": size}  # fmt: skip
    report["reached"] = seconds <= SECONDS_GOAL and size <= SIZE_GOAL
    cpu = statistics.median(one["cpu_s"] for one in runs)
    console.print(
        f"{report['ranks']} ranks, {options.hours:g} h: {seconds:.2f} s, {cpu:.2f} CPU s, {size / 1e6:.2f} MB"
    )
    console.print(f"goal: {SECONDS_GOAL:g} s, {SIZE_GOAL / 1e6:g} MB")
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"results in {options.json}")
    sys.exit(0 if report["reached"] else 1)


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--ranks-per-host", type=int, default=8, help="and GPUs: default 8")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("report-benchmark.json"))
    return parser.parse_args()


def write_bundle(options: argparse.Namespace) -> Path:
    """Write the bundle; where its page will be."""
    length = options.hours * 3600
    paths = ended_bundle(NAME, num_hosts=options.hosts, ranks_per_host=options.ranks_per_host, length=length)
    ranks = range(options.hosts * options.ranks_per_host)
    write_metrics(paths, ranks, length=length, every_s=ROW_EVERY_S)
    write_samples(paths, length=length, every_s=ROW_EVERY_S, num_gpus=options.ranks_per_host)
    return paths.root / "report.html"


def measure(page: Path) -> dict[str, Any]:
    """Wall and CPU seconds of one `ddp-play report`; CalledProcessError if it fails."""
    page.unlink(missing_ok=True)
    before, started = os.times(), time.monotonic()
    subprocess.run([PROGRAM, "report", NAME], check=True, stdout=subprocess.DEVNULL)
    took, after = time.monotonic() - started, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {"seconds": took, "cpu_s": used}


if __name__ == "__main__":
    main()
