"""Time from the allocation to the first all-reduce on Slurm: `python -m benchmarks.slurm_launch --nodes 8`.

It starts a Slurm cluster of this many nodes on this machine (tests/slurm/cluster.py), submits the same payload with
srun and with ddp-play in turn in every round, and compares them round by round. Both count from Slurm's prolog on the
first node. It exits 1 if ddp-play's median is more than 2.5 s later.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.slurm.cluster import Cluster
from tests.slurm.machine import lacking

GOAL_S = 2.5
LIMIT_S = 300
PAYLOAD = Path(__file__).with_name("payload.py")
PROGRAM = Path(sys.executable).with_name("ddp-play")
PROLOG = '#!/bin/sh\ndate +%s.%N > "{directory}/allocated-$SLURM_JOB_ID-$SLURMD_NODENAME"\n'
# One task per node with the variables that ddp-play gives its ranks; `began`: before Python starts.
TASK = """\
export RANK=$SLURM_PROCID LOCAL_RANK=0 WORLD_SIZE=$SLURM_NTASKS OMP_NUM_THREADS=1
export MASTER_ADDR=127.0.0.1 MASTER_PORT={port} GLOO_SOCKET_IFNAME=lo
echo began $(date +%s.%N)
exec {python} {payload} {kind}
"""
# Event or phase of the journal -> the phase that begins there.
PHASES = {
    "queue": "start Ansible",
    "play": "discover and plan",
    "preparing": "prepare",
    "prepared": "give the start signal",
    "running": "ranks import torch and meet",
}
console = Console()


@dataclass(frozen=True)
class Timing:
    """Seconds from the allocation to the first rank, to the payload's end on rank 0, and to the begin of each phase."""

    began_s: float
    payload_s: float
    load: float
    phases: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bench:
    """A cluster, a directory that all its nodes share, and the payload."""

    cluster: Cluster
    home: Path
    kind: str

    @property
    def environment(self) -> dict[str, str]:
        """For sbatch and ddp-play."""
        mine = {"DDP_PLAY_HOME": str(self.home / "state"), "DDP_PLAY_REPORT": "no", "HOME": str(self.home)}
        path = f"{Path(sys.executable).parent}:{self.cluster.environment['PATH']}"
        return {**os.environ, **self.cluster.environment, **mine, "PATH": path}

    def allocated(self, job_id: str) -> float:
        """When the prolog ran on the first node: before the job's script starts."""
        return float((self.cluster.directory / f"allocated-{job_id}-{self.cluster.nodes[0]}").read_text())

    def run(self, *words: str) -> str:
        """Output of a command that has to succeed."""
        done = subprocess.run(
            words, env=self.environment, cwd=self.home, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        if done.returncode:
            raise RuntimeError(f"{shlex.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout


def srun(bench: Bench, attempt: int) -> Timing:
    """An sbatch script whose only command is srun: the minimum of work for any launcher."""
    task = bench.home / "task.sh"
    task.write_text(TASK.format(port=21000 + attempt, python=sys.executable, payload=PAYLOAD, kind=bench.kind))
    output = bench.home / f"srun-{attempt}.log"
    options = (f"--nodes={len(bench.cluster.nodes)}", "--ntasks-per-node=1", "--exclusive", f"--output={output}")
    load = os.getloadavg()[0]
    job_id = bench.run("sbatch", "--parsable", "--wait", *options, "--wrap", f"srun --mpi=none sh {task}").strip()
    rows = [line.split() for line in output.read_text().splitlines()]
    began = min(float(row[1]) for row in rows if row[0] == "began")
    done = next(float(row[1]) for row in rows if row[0] == "payload-done")
    allocated = bench.allocated(job_id)
    return Timing(began - allocated, done - allocated, load)


def ddp_play(bench: Bench, attempt: int) -> Timing:
    """`ddp-play run --on slurm` of the same payload, with its checks and its network test."""
    name = f"launch-{attempt}"
    load = os.getloadavg()[0]
    job = ("-e", f"ddp_job_hosts={len(bench.cluster.nodes)}")
    bench.run(str(PROGRAM), "run", "bench.yml", "-i", "hosts.json", "--on", "slurm", "--name", name, *job)
    bundle = bench.home / "state" / "runs" / name
    allocated = bench.allocated(json.loads((bundle / "engine" / "allocation.json").read_text())["id"])
    began = min(row["started"] for row in json.loads((bundle / "run.json").read_text())["ranks"])
    log = (bundle / "logs" / "rank-0.log").read_text()
    done = next(float(line.split()[1]) for line in log.splitlines() if line.startswith("payload-done"))
    return Timing(began - allocated, done - allocated, load, phases(bundle / "events.jsonl", allocated))


def phases(events: Path, allocated: float) -> dict[str, float]:
    """Seconds from the allocation to the begin of each phase; the queue's last event is that of the granted nodes."""
    found = {"start the controller": 0.0}
    for row in map(json.loads, events.read_text().splitlines()):
        name = PHASES.get(row.get("phase") or row["type"])
        if name and (name not in found or row["type"] == "queue"):
            found[name] = row["time"] - allocated
    return found


def write_job(bench: Bench) -> None:
    """A playbook of the payload, and the variables of the nodes: each has a state directory of its own."""
    variables = {"ddp_job_command": [sys.executable, str(PAYLOAD), bench.kind], "ddp_job_ranks_per_host": 1}
    role = {"role": "ddp.play.ddp_job", "vars": variables}
    play = {"name": "Benchmark", "hosts": "ranks", "gather_facts": False, "roles": [role]}
    (bench.home / "bench.yml").write_text(json.dumps([play]))
    hosts = {}
    for node in bench.cluster.nodes:
        (bench.home / node).mkdir()
        row = {"ddp_slots": 100, "ddp_state_dir": str(bench.home / node), "ansible_python_interpreter": sys.executable}
        hosts[node] = row
    (bench.home / "hosts.json").write_text(json.dumps({"ranks": {"hosts": hosts}}))


def show(rows: dict[str, list[Timing]]) -> float:
    """Print medians, differences and phases; returns the median difference to srun."""
    table = Table("launcher", "first rank s", "first all-reduce s", "over srun s, round by round")
    over = [ours.payload_s - theirs.payload_s for ours, theirs in zip(rows["ddp-play"], rows["srun"], strict=True)]
    for name, found in rows.items():
        cells = (statistics.median(row.began_s for row in found), statistics.median(row.payload_s for row in found))
        last = f"{statistics.median(over):+.2f} ({min(over):+.2f} to {max(over):+.2f})" if name == "ddp-play" else ""
        table.add_row(name, *(f"{cell:.2f}" for cell in cells), last)
    console.print(table)
    begins = [{**row.phases, "first all-reduce": row.payload_s} for row in rows["ddp-play"]]
    medians = sorted((statistics.median(row[name] for row in begins), name) for name in begins[0])
    steps = Table("phase of ddp-play", "begins at s", "takes s")
    for (begin, name), (end, _) in itertools.pairwise(medians):
        steps.add_row(name, f"{begin:.2f}", f"{end - begin:.2f}")
    console.print(steps)
    return statistics.median(over)


def measure(options: argparse.Namespace, home: Path) -> dict[str, list[Timing]]:
    """All rounds on a cluster of their own, which ends with them."""
    directory = home / "cluster"
    directory.mkdir()
    prolog = directory / "prolog.sh"
    prolog.write_text(PROLOG.format(directory=directory))
    prolog.chmod(0o755)
    names = tuple(f"n{number}" for number in range(1, options.nodes + 1))
    cluster = Cluster(directory, nodes=names, lines=(f"Prolog={prolog}", "SlurmdTimeout=300"))
    bench = Bench(cluster, home, options.payload)
    write_job(bench)
    rows: dict[str, list[Timing]] = {"srun": [], "ddp-play": []}
    try:
        cluster.start()
        for attempt in range(options.repeats):
            for name, launch in (("srun", srun), ("ddp-play", ddp_play)):
                cluster.wait_idle(LIMIT_S)
                rows[name].append(launch(bench, attempt))
                row = rows[name][-1]
                console.print(f"round {attempt + 1}: {name} {row.payload_s:.2f} s, load {row.load:.1f} before")
    finally:
        cluster.stop()
    return rows


def main() -> int:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--payload", choices=["noop", "allreduce"], default="allreduce")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, default=Path("slurm-launch-benchmark.json"))
    options = parser.parse_args()
    if reason := lacking():
        sys.exit(reason)
    with tempfile.TemporaryDirectory(prefix="ddp-play-bench-", dir="/var/tmp") as scratch:
        rows = measure(options, Path(scratch))
    over = show(rows)
    result: dict[str, Any] = {name: [asdict(row) for row in found] for name, found in rows.items()}
    report = {"nodes": options.nodes, "payload": options.payload, "measured": time.strftime("%F %T"), "rows": result}
    options.json.write_text(json.dumps({**report, "load_average": os.getloadavg()}, indent=2) + "\n")
    console.print(f"{over:+.2f} s over srun, goal {GOAL_S}; load {os.getloadavg()[0]:.1f}; results in {options.json}")
    return int(over > GOAL_S)


if __name__ == "__main__":
    sys.exit(main())
