"""Launches with a large source, compared with a tiny one and with tar and rsync: `python benchmarks/sources.py`.

Each source is launched three times on this machine, over a local connection with a command that does nothing: for the
first time, unchanged, and with one edited file. In the same round, tar and rsync copy the same files on the same disk.
It prints medians in seconds and writes all results as JSON. The figures are valid only on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from machine import describe
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
GOAL_S = 1.0
FILE_MIB = 100
LAUNCHES = ("first", "unchanged", "one edited")
console = Console()


def main() -> None:
    """Measure, print, write the results; exit code 1 if the goal is not reached."""
    options = parse()
    rounds: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="ddp-play-sources-", dir=options.directory) as scratch:
        trees = make_trees(Path(scratch, "trees"), options)
        for number in range(options.rounds):
            console.print(f"round {number + 1}, load average {os.getloadavg()[0]:.1f}")
            rounds.append({name: measure(tree, Path(scratch, f"{number}-{name}")) for name, tree in trees.items()})
    medians = {name: median_of([one[name] for one in rounds]) for name in rounds[0]}
    over = medians["small files"]["one edited"] - medians["tiny"]["one edited"]
    show(medians)
    console.print(f"small files, one edited, over a tiny source: {over:.2f} s (goal: {GOAL_S} s)")
    report = {
        "machine": describe(),
        "options": vars(options),
        "rounds": rounds,
        "medians": medians,
        "over_tiny_s": over,
    }
    options.json.write_text(json.dumps(report, indent=2, default=str) + "\n")
    console.print(f"results in {options.json}")
    sys.exit(0 if over <= GOAL_S else 1)


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=20_000, help="number of small files: default 20000")
    parser.add_argument("--large-mib", type=int, default=1000, help="size of the source of large files; 0: without it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--directory", type=Path, default=Path("/var/tmp"), help="where all files are: default /var/tmp"
    )
    parser.add_argument("--json", type=Path, default=Path("sources-benchmark.json"))
    return parser.parse_args()


def make_trees(where: Path, options: argparse.Namespace) -> dict[str, Path]:
    """The sources: one file of 11 bytes, many small files (3 KB on average), and files of 100 MiB of noise."""
    trees = {"tiny": where / "tiny", "small files": where / "small"}
    write(trees["tiny"] / "edited.py", b"x = 'a' * 2")
    for number in range(options.files):
        text = b"%d " % (number * 7919) * (200 + number % 400)
        write(trees["small files"] / f"d{number % 200}" / f"f{number}.py", text)
    write(trees["small files"] / "edited.py", b"x = 'a' * 2")
    if options.large_mib:
        trees["large files"] = where / "large"
        for number in range(max(1, options.large_mib // FILE_MIB)):
            write(trees["large files"] / f"weights{number}", os.urandom(FILE_MIB << 20))
        write(trees["large files"] / "edited.py", b"x = 'a' * 2")
    return trees


def write(path: Path, data: bytes) -> None:
    """Write a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def edit(tree: Path) -> None:
    """Change one letter."""
    path = tree / "edited.py"
    write(path, path.read_bytes().translate(bytes.maketrans(b"ab", b"ba")))


def measure(tree: Path, scratch: Path) -> dict[str, float]:
    """Seconds of each launch and of each other way; bytes that launches sent."""
    console.print(tree.name)
    scratch.mkdir()
    found = {}
    for launch in LAUNCHES:
        if launch == "one edited":
            edit(tree)
        found[launch] = timed(launch, lambda: run(tree, scratch))
        found[f"{launch}, bytes sent"] = sent(scratch)
    found |= other_ways(tree, scratch)
    shutil.rmtree(scratch)
    return found


def run(tree: Path, scratch: Path) -> None:
    """One `ddp-play run` of this source."""
    job = {"ddp_job_source": str(tree), "ddp_job_command": "true", "ddp_job_ranks_per_host": 1}
    job |= {"ddp_job_source_max_mib": 1 << 20}
    play = {"hosts": "ranks", "gather_facts": False, "roles": [{"role": "ddp.play.ddp_job", "vars": job}]}
    playbook = scratch / "job.yml"
    playbook.write_text(json.dumps([play]))
    places = {"DDP_PLAY_HOME": str(scratch / "home"), "DDP_PLAY_HOST_DIR": str(scratch / "host")}
    command(
        str(Path(sys.executable).with_name("ddp-play")), "run", str(playbook), "-i", str(ROOT / "inventory/local"),
        **places,
    )  # fmt: skip


def sent(scratch: Path) -> int:
    """Bytes of the source that the newest run has sent."""
    newest = max((scratch / "home" / "runs").glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    return int(json.loads(newest.read_text())["source_bytes_sent"])


def other_ways(tree: Path, scratch: Path) -> dict[str, float]:
    """Seconds of tar, which copies all each time, and of rsync, which compares with an earlier copy."""
    archive, copy, synced = scratch / "source.tar", scratch / "copy", scratch / "synced"
    copy.mkdir()
    found = {
        "tar cf": timed("tar cf", lambda: command("tar", "-C", str(tree), "-cf", str(archive), ".")),
        "tar xf": timed("tar xf", lambda: command("tar", "-C", str(copy), "-xf", str(archive))),
        "rm": timed("rm", lambda: command("rm", "-rf", str(copy))),
    }
    if shutil.which("rsync"):
        for launch in LAUNCHES:
            if launch == "one edited":
                edit(tree)
            found[f"rsync, {launch}"] = timed(
                "rsync", lambda: command("rsync", "-a", "--checksum", f"{tree}/", f"{synced}/")
            )
    return found


def timed(what: str, work: Callable[[], None]) -> float:
    """Seconds that this takes, which are printed."""
    began = time.monotonic()
    work()
    spent_s = time.monotonic() - began
    console.print(f"  {what}: {spent_s:.2f} s")
    return spent_s


def command(*argv: str, **environment: str) -> None:
    """Run a command; CalledProcessError if it fails."""
    subprocess.run(
        argv, env={**os.environ, **environment}, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


def median_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """Median of each figure."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def show(medians: dict[str, dict[str, float]]) -> None:
    """Print the medians."""
    table = Table("what", *medians)
    for name in next(iter(medians.values())):
        figures = [row[name] for row in medians.values()]
        table.add_row(name, *(f"{one:,.0f}" if "bytes" in name else f"{one:.2f}" for one in figures))
    console.print(table)


if __name__ == "__main__":
    main()
