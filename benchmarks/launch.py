"""Time from command to first all-reduce and to exit, against raw ssh: `python benchmarks/launch.py --hosts 2,8`.

Brings up a lab of each size, runs every contender in turn within each repeat, and takes medians, so that what else
the machine does hits all of them alike. Prints a table and keeps everything as JSON.
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

from contenders import Bench, Timing, ddp_play, raw, rival
from machine import describe
from rich.console import Console
from rich.table import Table
from rivals.launchers import PINS, Rival, wheels_of
from staging import IMAGE, command, fetch, stage

COLUMNS = ("to payload s", "to exit s", "payload x raw", "exit s over raw")
TRIES = 3
OURS = ("raw", "ddp-play")
RETRY_OFFSET = 1000  # a second try takes a port and a run name that no round has
Contender = Callable[[Bench, int], Timing]
console = Console()


def main() -> None:
    """Parse, measure every size, print and keep."""
    options = parse()
    contenders: dict[str, Contender] = {"raw": raw, "ddp-play": ddp_play}
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
    console.print(f"kept in {options.json}")


def rivals(options: argparse.Namespace, packages: Path) -> dict[str, Contender]:
    """Installs what the hosts need beside Python, once for all sizes; says which launcher cannot take part and why."""
    found: dict[str, Contender] = {}
    for text in options.rival:
        name, _, template = text.partition("=")
        found[name] = rival(template)
    wheels, refused = wheels_of(options.launchers, packages.with_name("wheels"))
    for name, why in refused.items():
        console.print(f"without {name}: {why}", markup=False)
    if options.payload == "allreduce" or wheels:
        fetch(packages, wheels.values())
    return {**found, **{name: Rival(name, packages).run for name in wheels}}


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=lambda text: [int(n) for n in text.split(",")], default=[2, 8])
    parser.add_argument("--payload", choices=["noop", "allreduce"], default="allreduce")
    parser.add_argument("--name", default="bench", help="beginning of the labs' names")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("launch-benchmark.json"))
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        dest="launchers",
        choices=sorted(PINS),
        help="a launcher to measure beside ours, without containers; left out, with the reason, where it cannot be",
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
    """All contenders on one lab, in turn, `repeats` times; the lab is gone afterwards. One that fails is left out."""
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
    """One measurement, tried up to three times: a rank that crashes in torch's teardown must not cost the whole run.

    None where another launcher fails each time; without raw and ours there is nothing to compare, and all ends.
    """
    for number in range(TRIES):
        try:
            return run(bench, attempt + RETRY_OFFSET * number)
        except RuntimeError as error:
            console.print(
                f"{bench.num_hosts} hosts, round {attempt + 1}: {name} failed and is tried again: {error}", markup=False
            )
    if name in OURS:
        sys.exit(f"{name} failed {TRIES} times in a row")
    return None


def show(results: list[dict[str, Any]], contenders: list[str]) -> None:
    """Medians in seconds; against raw, pair by pair: the ratio to the payload and the seconds over it at the end."""
    table = Table("hosts", "launcher", *COLUMNS)
    phases = Table("hosts", "ddp-play phase", "begins at s", "takes s")
    for result in results:
        rows = result["timings"]
        for name in contenders:
            found = row_cells(rows[name], rows["raw"]) if name in rows else ["failed"]
            table.add_row(str(result["num_hosts"]), name, *found)
        for name, begin, lasts in breakdown(rows["ddp-play"]):
            phases.add_row(str(result["num_hosts"]), name, f"{begin:.1f}", f"{lasts:.1f}")
    console.print(table)
    console.print(phases)


def row_cells(rows: list[dict[str, Any]], raw_rows: list[dict[str, Any]]) -> list[str]:
    """One contender's figures at one size."""
    pairs = list(zip(rows, raw_rows, strict=True))
    payload_times = [row["payload_s"] for row in rows if row["payload_s"] is not None]
    ratios = [a["payload_s"] / b["payload_s"] for a, b in pairs if a["payload_s"] and b["payload_s"]]
    return [
        f"{statistics.median(payload_times):.1f}" if payload_times else "-",
        f"{statistics.median(row['total_s'] for row in rows):.1f}",
        f"{statistics.median(ratios):.2f}" if ratios else "-",
        f"{statistics.median(a['total_s'] - b['total_s'] for a, b in pairs):+.1f}",
    ]


def breakdown(rows: list[dict[str, Any]]) -> list[tuple[str, float, float]]:
    """(phase, when it begins, how long it takes), medians over the rounds, in the order of a run."""
    moments = [{"start Ansible": 0.0, **row["phases"], "exit": row["total_s"]} for row in rows]
    names = [name for name in moments[0] if all(name in row for row in moments)]
    begins = {name: statistics.median(row[name] for row in moments) for name in names}
    ordered = sorted(names, key=begins.__getitem__)
    return [(name, begins[name], begins[after] - begins[name]) for name, after in itertools.pairwise(ordered)]


if __name__ == "__main__":
    main()
