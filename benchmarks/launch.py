"""Launch time to the first all-reduce and to the exit, compared with raw ssh: `benchmarks/launch.py --hosts 2,8`.

The end of the payload is measured on rank 0 and on the last rank. The script starts a lab of each size, runs all
launchers in turn in every round, and takes medians, so that other load on the machine affects all of them equally. It
prints a table and writes all results as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contenders import Bench, Timing, again, ddp_play, raw, rival, session
from machine import describe, interrupt_on_signals
from rich.console import Console
from rich.table import Table
from rivals.launchers import PINS, Rival, wheels_of
from staging import IMAGE, command, fetch, stage

COLUMNS = ("to payload s", "last rank s", "to exit s", "payload x raw", "last rank s over raw", "exit s over raw")
TRIES = 3
OURS = ("raw", "ddp-play")
RETRY_OFFSET = 1000  # a retry needs a port and a run name that no round uses
Contender = Callable[[Bench, int], Timing]
console = Console()


def main() -> None:
    """Measure every size, print the tables, write the results."""
    options = parse()
    interrupt_on_signals()
    contenders: dict[str, Contender] = {"raw": raw, "ddp-play": ddp_play}
    if options.session:
        contenders |= {"ddp-play again": again, "ddp-play session": session}
    results = []
    with tempfile.TemporaryDirectory(prefix="ddp-play-bench-", dir="/var/tmp") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        packages = Path(scratch) / "packages"
        contenders |= rivals(options, packages)
        for num_hosts in options.hosts:
            results.append(measure_size(num_hosts, contenders, options, Path(scratch)))
            show(results, list(contenders))
            report = {"machine": describe(), "payload": options.payload, "repeats": options.repeats, "sizes": results}
            options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"results in {options.json}")


def rivals(options: argparse.Namespace, packages: Path) -> dict[str, Contender]:
    """Other launchers by name; installs the packages for the hosts once for all sizes.

    A launcher that cannot run on this machine is printed with the reason and left out.
    """
    found: dict[str, Contender] = {}
    for text in options.rival:
        name, _, template = text.partition("=")
        found[name] = rival(template)
    wheels, refused = wheels_of(options.launchers, packages.with_name("wheels"))
    for name, why in refused.items():
        console.print(f"{name} is left out: {why}", markup=False)
    if options.payload == "allreduce" or wheels:
        fetch(packages, wheels.values())
    return {**found, **{name: Rival(name, packages).run for name in wheels}}


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=lambda text: [int(n) for n in text.split(",")], default=[2, 8])
    parser.add_argument("--payload", choices=["noop", "allreduce"], default="allreduce")
    parser.add_argument("--name", default="bench", help="prefix of the labs' names")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("launch-benchmark.json"))
    parser.add_argument("--session", action="store_true", help="also the second run, without and in a session")
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="launchers",
        choices=sorted(PINS),
        help="also measure this launcher, without containers; left out with the reason if it cannot run",
    )
    parser.add_argument(
        "--rival",
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another launcher; {inventory} {hosts} {payload} {attempt} are filled in",
    )
    return parser.parse_args()


def measure_size(
    num_hosts: int, contenders: dict[str, Contender], options: argparse.Namespace, home: Path
) -> dict[str, Any]:
    """All launchers in turn on a lab of one size, `repeats` times; removes the lab. Those that fail are left out."""
    name = f"{options.name}{num_hosts}"
    inventory = home / "lab" / name / "inventory" / "hosts.yml"
    try:
        command("lab", "up", "--name", name, "--hosts", str(num_hosts))
        command("image", "build", "--slim", "--tag", IMAGE)
        command("image", "load", "-i", str(inventory), "--image", IMAGE)
        stage(str(inventory), home / "packages")
        bench = Bench(str(inventory), home, IMAGE, options.payload, num_hosts)
        timings: dict[str, list[Timing]] = {contender: [] for contender in contenders}
        for attempt in range(options.repeats):
            for contender in list(timings):
                timing = measure_with_retries(contender, contenders[contender], bench, attempt)
                if timing is None:
                    del timings[contender]
                    continue
                timings[contender].append(timing)
                console.print(f"{num_hosts} hosts, round {attempt + 1}: {contender} {timing.total_s:.1f} s")
        rows = {contender: [asdict(timing) for timing in found] for contender, found in timings.items()}
        return {"num_hosts": num_hosts, "load_average": os.getloadavg(), "timings": rows}
    finally:
        command("lab", "down", "--name", name)


def measure_with_retries(name: str, run: Contender, bench: Bench, attempt: int) -> Timing | None:
    """One measurement with up to three tries, because a rank may crash in torch's teardown.

    None if another launcher fails every time. If raw or ddp-play does, the benchmark ends: nothing to compare.
    """
    for number in range(TRIES):
        try:
            return run(bench, attempt + RETRY_OFFSET * number)
        except RuntimeError as error:
            console.print(
                f"{bench.num_hosts} hosts, round {attempt + 1}: {name} failed, next try: {error}", markup=False
            )
    if name in OURS:
        sys.exit(f"{name} failed {TRIES} times in a row")
    return None


def show(results: list[dict[str, Any]], contenders: list[str]) -> None:
    """Print medians in seconds, and per round compared with raw: ratio to the payload, difference to the last rank's
    payload and to the exit.
    """
    table = Table("hosts", "launcher", *COLUMNS)
    phases = Table("hosts", "launcher", "phase", "begins at s", "takes s")
    for result in results:
        rows = result["timings"]
        for name in contenders:
            found = row_cells(rows[name], rows["raw"]) if name in rows else ["failed"]
            table.add_row(str(result["num_hosts"]), name, *found)
        for ours in [name for name in rows if name.startswith("ddp-play")]:
            for name, begin, lasts in breakdown(rows[ours]):
                phases.add_row(str(result["num_hosts"]), ours, name, f"{begin:.2f}", f"{lasts:.2f}")
    console.print(table)
    console.print(phases)


def row_cells(rows: list[dict[str, Any]], raw_rows: list[dict[str, Any]]) -> list[str]:
    """Figures of one launcher at one size, as text."""
    pairs = list(zip(rows, raw_rows, strict=True))
    ratios = [a["payload_s"] / b["payload_s"] for a, b in pairs if a["payload_s"] and b["payload_s"]]
    over = [a["last_s"] - b["last_s"] for a, b in pairs if a["last_s"] and b["last_s"]]
    return [
        median([row["payload_s"] for row in rows if row["payload_s"] is not None], ".1f"),
        median([row["last_s"] for row in rows if row["last_s"] is not None], ".1f"),
        median([row["total_s"] for row in rows], ".1f"),
        median(ratios, ".2f"),
        median(over, "+.1f"),
        median([a["total_s"] - b["total_s"] for a, b in pairs], "+.1f"),
    ]


def median(values: list[float], form: str) -> str:
    """The median as text; `-` without values."""
    return format(statistics.median(values), form) if values else "-"


def breakdown(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(phase, second of its begin, seconds it takes) in the order of a run, medians over the rounds."""
    moments = [{"start Ansible": 0.0, **row["phases"], "exit": row["total_s"]} for row in rows]
    names = [name for name in moments[0] if all(name in row for row in moments)]
    begins = {name: statistics.median(row[name] for row in moments) for name in names}
    ordered = sorted(names, key=begins.__getitem__)
    return [(name, begins[name], begins[after] - begins[name]) for name, after in itertools.pairwise(ordered)]


if __name__ == "__main__":
    main()
