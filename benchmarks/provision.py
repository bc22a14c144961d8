"""Time to provision bare lab hosts, first and again, and to verify them: `python benchmarks/provision.py --hosts 8`.

All roles that work in a container take part. It prints the time of each run and role and writes all results as
JSON. Later runs must change nothing; if one does, the benchmark ends with an error.
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
from importlib.metadata import version
from pathlib import Path
from typing import Any

from contenders import SHARED
from launch import command
from machine import describe, interrupt_on_signals
from rich.console import Console
from rich.table import Table

from ddp_play.images.ssh_access import resolve

IMAGE = "ddp-play-rank:slim"
LAB = "bench-provision"
WHEELS = f"{SHARED}/wheels"
# A small package: the installation of torch by pip would dominate the time.
PACKAGE = f"packaging=={version('packaging')}"
console = Console()


def main() -> None:
    """Start a lab, provision it several times, print, write the results."""
    options = parse()
    interrupt_on_signals()
    with tempfile.TemporaryDirectory(prefix="ddp-play-bench-", dir="/var/tmp") as scratch:
        os.environ.setdefault("DDP_PLAY_HOME", scratch)
        name = f"{LAB}{options.hosts}"
        try:
            command("lab", "up", "--name", name, "--hosts", str(options.hosts), "--no-docker")
            hosts = Path(os.environ["DDP_PLAY_HOME"], "lab", name, "inventory", "hosts.yml")
            stage_wheels(str(hosts), Path(scratch))
            inventories = [hosts, write_site_inventory(Path(scratch))]
            runs = [measure("provision", inventories, unchanged=number > 0) for number in range(1 + options.again)]
            runs += [measure("verify", inventories, unchanged=True) for _ in range(options.again)]
        finally:
            if not options.keep:
                command("lab", "down", "--name", name)
    show(runs)
    options.json.write_text(json.dumps({"machine": describe(), "hosts": options.hosts, "runs": runs}, indent=2) + "\n")
    console.print(f"results in {options.json}")


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=8)
    parser.add_argument("--again", type=int, default=2, help="runs after the first one")
    parser.add_argument("--keep", action="store_true", help="keep the lab running (set DDP_PLAY_HOME too)")
    parser.add_argument("--json", type=Path, default=Path("provision-benchmark.json"))
    return parser.parse_args()


def write_site_inventory(scratch: Path) -> Path:
    """Write a second inventory: groups and variables for all roles of hosts without GPUs; returns its path."""
    archive = scratch / "rank.tar"
    command("image", "build", "--slim", "--tag", IMAGE)
    subprocess.run(["docker", "save", "--output", str(archive), IMAGE], check=True)
    ranks = {"children": {"ranks": None}}
    variables = {
        "docker_engine_source": "distribution",
        "docker_engine_users": ["ops"],
        "nccl_enabled": "true",
        "nccl_conf": {"NCCL_IB_TC": 106},
        "image_distribution_images": [{"name": IMAGE, "archive": str(archive)}],
        "python_env_source": "wheelhouse",
        "python_env_wheelhouse": WHEELS,
        "python_env_packages": [PACKAGE],
        "python_env_verify_imports": ["packaging"],
    }
    path = scratch / "site.json"
    path.write_text(json.dumps({"all": {"children": {"monitoring": ranks, "python_env": ranks}, "vars": variables}}))
    return path


def stage_wheels(inventory: str, scratch: Path) -> None:
    """Copy a wheelhouse to the shared directory, because hosts may have no access to a package index."""
    wheels = scratch / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), PACKAGE]
    subprocess.run(pip, check=True, stdin=subprocess.DEVNULL)
    with subprocess.Popen(["tar", "-C", str(wheels), "-c", "."], stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        done = resolve(inventory)[0].run(f"mkdir -p {WHEELS} && tar -C {WHEELS} -x", stdin=tar.stdout)
    if done.returncode != 0 or tar.returncode != 0:
        sys.exit(f"cannot copy the wheels to {SHARED}: {done.stderr.decode()}")


def measure(verb: str, inventories: list[Path], *, unchanged: bool) -> dict[str, Any]:
    """Run `ddp-play VERB` and return its report with the verb, the wall time and the load before and after.

    Exits if it fails, or if it changed something though nothing was left to do (`unchanged`).
    """
    argv = [str(Path(sys.executable).with_name("ddp-play")), verb, "--json"]
    argv += [word for path in inventories for word in ("-i", str(path))]
    started, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    wall_s = time.monotonic() - started
    if done.returncode != 0:
        sys.exit(f"{verb} failed with exit code {done.returncode}: {done.stdout[-2000:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    if unchanged and report["num_changed"]:
        sys.exit(f"{verb} changed something: {[row for row in report['cells'] if row['num_changed']]}")
    return {"verb": verb, "wall_s": round(wall_s, 1), "load": [load, os.getloadavg()[0]], **report}


def show(runs: list[dict[str, Any]]) -> None:
    """Print a table of the runs, and one of the roles in the first and in the last provisioning."""
    table = Table("run", "verb", "wall s", "changed", "tasks a host", "load before, after")
    for number, run in enumerate(runs, 1):
        hosts = {cell["host"] for cell in run["cells"]}
        load = ", ".join(f"{value:.0f}" for value in run["load"])
        tasks = f"{run['num_tasks'] / len(hosts):.0f}"
        table.add_row(str(number), run["verb"], f"{run['wall_s']:.1f}", str(run["num_changed"]), tasks, load)
    console.print(table)
    runs = [run for run in runs if run["verb"] == "provision"]
    roles = Table("role", "status", "first run, s a host (median)", "last run, s a host (median)")
    for role in dict.fromkeys(cell["role"] for cell in runs[0]["cells"]):
        cells = [[cell for cell in run["cells"] if cell["role"] == role] for run in (runs[0], runs[-1])]
        times = [f"{statistics.median(cell['duration_s'] for cell in found):.1f}" for found in cells]
        roles.add_row(role, cells[0][0]["status"], *times)
    console.print(roles)


if __name__ == "__main__":
    main()
