"""Time from command to first all-reduce and to exit, against raw ssh: `python benchmarks/launch.py --hosts 2,8`.

Brings up a lab of each size, runs every contender in turn within each repeat, and takes medians, so that what else
the machine does hits all of them alike. Prints a table and keeps everything as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from contenders import SHARED, TORCH_ENV, Bench, Timing, ddp_play, raw, rival
from rich.console import Console
from rich.table import Table

from ddp_play.images.reach import resolve

IMAGE = "ddp-play-rank:slim"
LAB = "bench"
TRIES = 3
ROUNDS_APART = 1000  # a second try takes a port and a run name that no round has
Contender = Callable[[Bench, int], Timing]
console = Console()


def main() -> None:
    """Parse, measure every size, print and keep."""
    options = parse()
    contenders: dict[str, Contender] = {"raw": raw, "ddp-play": ddp_play}
    for text in options.rival:
        name, _, template = text.partition("=")
        contenders[name] = rival(template)
    results = []
    with tempfile.TemporaryDirectory(prefix="ddp-play-bench-") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        for num_hosts in options.hosts:
            results.append(measure_size(num_hosts, contenders, options, Path(scratch)))
            show(results, list(contenders))
    report = {"machine": machine(), "payload": options.payload, "repeats": options.repeats, "sizes": results}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"kept in {options.json}")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=lambda text: [int(n) for n in text.split(",")], default=[2, 8])
    parser.add_argument("--payload", choices=["noop", "allreduce"], default="allreduce")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("launch-benchmark.json"))
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
) -> dict[str, object]:
    """All contenders on one lab, in turn, `repeats` times; the lab is gone afterwards."""
    name = f"{LAB}{num_hosts}"
    inventory = home / "lab" / name / "inventory" / "hosts.yml"
    try:
        command("lab", "up", "--name", name, "--hosts", str(num_hosts))
        command("image", "build", "--slim", "--tag", IMAGE)
        command("image", "load", "-i", str(inventory), "--image", IMAGE)
        stage(str(inventory), torch=options.payload == "allreduce")
        bench = Bench(str(inventory), home, IMAGE, options.payload, num_hosts)
        timings: dict[str, list[Timing]] = {contender: [] for contender in contenders}
        for attempt in range(options.repeats):
            for contender, run in contenders.items():
                timing = persist(contender, run, bench, attempt)
                timings[contender].append(timing)
                console.print(f"{num_hosts} hosts, round {attempt + 1}: {contender} {timing.total_s:.1f} s")
        rows = {contender: [asdict(timing) for timing in found] for contender, found in timings.items()}
        return {"num_hosts": num_hosts, "load_average": os.getloadavg(), "timings": rows}
    finally:
        command("lab", "down", "--name", name)


def persist(name: str, run: Contender, bench: Bench, attempt: int) -> Timing:
    """One measurement, tried up to three times: a rank that crashes in torch's teardown must not cost the whole run."""
    for tried in range(TRIES):
        try:
            return run(bench, attempt + ROUNDS_APART * tried)
        except RuntimeError as error:
            console.print(
                f"{bench.num_hosts} hosts, round {attempt + 1}: {name} failed and is tried again: {error}", markup=False
            )
    sys.exit(f"{name} failed {TRIES} times in a row")


def stage(inventory: str, *, torch: bool) -> None:
    """Put the payload, and torch where it is needed, into the shared directory once for all hosts."""
    first = resolve(inventory)[0]
    payload = Path(__file__).with_name("payload.py")
    with payload.open("rb") as file:
        done = first.run(f"mkdir -p {SHARED}/bench && cat > {SHARED}/bench/payload.py", stdin=file)
    if done.returncode != 0:
        sys.exit(f"cannot write to {SHARED}: {done.stderr.decode()}")
    if not torch:
        return
    wanted = [f"{package}=={version(package)}" for package in ("torch", "numpy")]
    with tempfile.TemporaryDirectory(prefix="ddp-play-torch-", dir="/var/tmp") as scratch:
        console.print(f"copying {' '.join(wanted)} to the shared directory")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", scratch, *wanted]
        subprocess.run(pip, check=True, stdin=subprocess.DEVNULL)
        with subprocess.Popen(["tar", "-C", scratch, "-c", "."], stdout=subprocess.PIPE) as tar:
            assert tar.stdout is not None
            done = first.run(f"mkdir -p {TORCH_ENV} && tar -C {TORCH_ENV} -x", stdin=tar.stdout)
    if done.returncode != 0 or tar.returncode != 0:
        sys.exit(f"torch did not reach the shared directory: {done.stderr.decode()}")


def show(results: list[dict[str, object]], contenders: list[str]) -> None:
    """Medians in seconds and the ratio to raw, pair by pair."""
    table = Table("hosts", *(f"{name} {what}" for name in contenders for what in ("to payload", "total", "x raw")))
    for result in results:
        rows: dict[str, list[dict[str, float | None]]] = result["timings"]  # type: ignore[assignment]
        cells = []
        for name in contenders:
            told = [row["payload_s"] for row in rows[name] if row["payload_s"] is not None]
            cells.append(f"{statistics.median(told):.1f}" if told else "-")
            cells.append(f"{statistics.median(row['total_s'] or 0.0 for row in rows[name]):.1f}")
            pairs = zip(rows[name], rows["raw"], strict=True)
            ratios = [a["payload_s"] / b["payload_s"] for a, b in pairs if a["payload_s"] and b["payload_s"]]
            cells.append(f"{statistics.median(ratios):.2f}" if ratios else "-")
        table.add_row(str(result["num_hosts"]), *cells)
    console.print(table)


def machine() -> dict[str, object]:
    """Where the figures come from."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    engine = ["docker", "version", "--format", "{{.Server.Version}}"]
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "docker": subprocess.run(engine, capture_output=True, text=True, check=True).stdout.strip(),
        "ddp_play": version("ddp-play"),
        "measured": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def command(*words: str) -> None:
    """`ddp-play WORDS...`, which must succeed."""
    argv = [str(Path(sys.executable).with_name("ddp-play")), *words]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
