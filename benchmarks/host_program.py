"""CPU time of the program on the hosts: `python benchmarks/host_program.py --ranks 4 --seconds 30`.

It measures one short process of the program (`runs`: received, checked, started, answered), and the guard, its sampler
and the channel of a job whose ranks do nothing, on this machine: CPU time and wakes; `start_ms` is what each had used
before that. It prints a table and writes the results as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from machine import describe
from rich.console import Console
from rich.table import Table

from ddp_play.run.host_program import preamble, shell_command

console = Console()
SETTLED_S = 10.0  # from the start of the ranks to the measurement


def main() -> None:
    """Measure, print, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--samples", type=float, default=2.0, help="seconds between samples, 0 for none")
    parser.add_argument("--python", default="/usr/bin/python3", help="the hosts' Python")
    parser.add_argument("--json", type=Path, default=Path("host-program-benchmark.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ddp-play-bench-") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        os.environ["DDP_PLAY_HOST_DIR"] = str(Path(scratch, "host"))
        report = {
            "machine": describe(),
            "python_ms": process_ms([options.python, "-I", "-S", "-c", "pass"]),
            "process_ms": process_ms(["/bin/sh", "-c", shell_command(options.python, "runs")], preamble()),
            "idle": idle(Path(scratch), options),
        }
    show(report)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"results in {options.json}")


def process_ms(argv: list[str], sent: bytes = b"") -> float:
    """Median CPU time of 20 processes in milliseconds, after one that may store the program."""
    found = []
    for _ in range(21):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, input=sent, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime))
    return statistics.median(found[1:])


def idle(scratch: Path, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Percent of a core and wakes a second of guard, sampler and channel while ranks sleep."""
    role = {
        "role": "ddp.play.ddp_job",
        "vars": {
            "ddp_job_command": ["sleep", "3600"],
            "ddp_job_runtime": "process",
            "ddp_job_samples": options.samples,
        },
    }
    (scratch / "job.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "roles": [role]}]))
    host = {"ansible_connection": "local", "ddp_slots": options.ranks}
    (scratch / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"here": host}}}))
    argv = [sys.executable, "-m", "ddp_play", "run", "job.yml", "-i", "hosts.yml"]
    log = scratch / "log"
    with log.open("w") as output, subprocess.Popen(argv, cwd=scratch, stdout=output, stderr=output) as run:
        try:
            while " running" not in log.read_text():
                if run.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.2)
            time.sleep(SETTLED_S)
            pids = processes(scratch)
            before, began = {name: used(pid) for name, pid in pids.items()}, time.monotonic()
            time.sleep(options.seconds)
            passed_s = time.monotonic() - began
            after = {name: used(pid) for name, pid in pids.items()}
        finally:
            run.terminate()  # SIGINT is ignored where this script was started in the background
    return {
        name: {
            "percent": (after[name][0] - before[name][0]) / 1e7 / passed_s,
            "wakes": (after[name][1] - before[name][1]) / passed_s,
            "start_ms": before[name][0] / 1e6,
        }
        for name in pids
    }


def processes(scratch: Path) -> dict[str, int]:
    """Pid of the guard, of its sampler and of the channel that belong to this measurement."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            environment = (path / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(scratch) in environment and words[-2:-1] == [b"channel"]:
            found["channel"] = max(found.get("channel", 0), int(path.name))  # its shell has the same words
        elif os.fsencode(scratch) in b"\0".join(words) and words[-3:-2] in ([b"guard"], [b"samples"]):
            found[words[-3].decode()] = int(path.name)
    return found


def used(pid: int) -> tuple[int, int]:
    """Nanoseconds of CPU time and voluntary switches of all threads of a process."""
    cpu_ns, switches = 0, 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        cpu_ns += int((task / "schedstat").read_text().split()[0])
        status = dict(line.partition(":\t")[::2] for line in (task / "status").read_text().splitlines())
        switches += int(status["voluntary_ctxt_switches"])
    return cpu_ns, switches


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    table = Table("what", "figure")
    table.add_row("Python alone, CPU of a process", f"{report['python_ms']:.0f} ms")
    table.add_row("the program, CPU of a process", f"{report['process_ms']:.0f} ms")
    for name, row in report["idle"].items():
        table.add_row(f"{name}, idle ranks", f"{row['percent']:.3f} % of a core, {row['wakes']:.1f} wakes/s")
    console.print(table)


if __name__ == "__main__":
    main()
