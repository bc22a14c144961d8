"""Ten failures on one Slurm cluster, and what each tool reports: `python -m benchmarks.slurm_failures --peers PEERS`.

PEERS has an environment for each of torchx, submitit and nemo-run: `python3 -m venv PEERS/torchx;
PEERS/torchx/bin/pip install torchx torch`. The cluster is this machine's: three nodes, accounting, control groups with
a limit on memory. Root only. Output of each tool is below DIRECTORY, and the reports are in a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.machine import interrupt_on_signals
from benchmarks.rivals.slurm_tools import TOOLS, Place, Wish, versions
from benchmarks.slurm_failure_table import FAILURES, STARTED_S, Failure, Stand
from tests.slurm.accounting import Accounting, lacking_accounting
from tests.slurm.cluster import Cluster
from tests.slurm.machine import lacking, lacking_control_groups
from tests.waiting import wait_until

LIMIT_S, QUIET_S = 300.0, 120.0
MEMORY_MIB, JOB_MEMORY_MIB = 4000, 1500
TAIL_LINES = 12
IN_PRIVATE = "SLURM_FAILURES_IN_PRIVATE"
console = Console(width=200)


@dataclass
class Report:
    """What a tool reported of one failure: its exit code, its last lines, and what Slurm says of the job."""

    failure: str
    tool: str
    exit_code: int | None  # None: it still waited
    seconds: float
    words: list[str]
    slurm: str


def play(stand: Stand, failure: Failure, tool: str) -> Report:
    """One failure with one tool, on an idle cluster, which is idle again afterwards."""
    argv = TOOLS[tool](stand.place, Wish(failure.name, failure.minutes))
    if failure.before:
        failure.before(stand)
    began = time.monotonic()
    with stand.output.open("wb") as output:
        child = subprocess.Popen(
            argv, cwd=stand.place.directory, env=stand.place.environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            stand.job = submitted(stand, child)
            if failure.act and stand.job:
                failure.act(stand)
            code = wait_end(stand, child)
        except AssertionError as error:
            output.write(f"the benchmark gave up: {error}\n".encode())
            code = None
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
    seconds = round(time.monotonic() - began, 1)
    words = tail(stand.output)
    for path in stand.place.directory.glob("slurm-*.out"):  # of a script, its user reads this
        words += [f"{path.name}:", *tail(path)]
    return Report(failure.name, tool, code, seconds, words, slurm_says(stand))


def tail(path: Path) -> list[str]:
    """The last lines of what a tool printed."""
    lines = [line.rstrip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-TAIL_LINES:]


def submitted(stand: Stand, child: subprocess.Popen[bytes]) -> str:
    """The job's id, once it is in the queue; empty if the command ended before."""
    seen: list[str] = []

    def there() -> bool:
        rows = stand.cluster.run("squeue", "-h", "-o", "%i %j", check=False).splitlines()
        seen[:] = [row.split()[0].split("+")[0] for row in rows if not row.endswith(" urgent")]
        return bool(seen) or child.poll() is not None

    wait_until(there, timeout_s=STARTED_S, what="the job is in the queue", every_s=0.2)
    return seen[0] if seen else ""


def wait_end(stand: Stand, child: subprocess.Popen[bytes]) -> int | None:
    """The command's exit code; None if it still waits when the job runs a second time, or after five minutes."""
    deadline, again = time.monotonic() + LIMIT_S, 0.0
    while time.monotonic() < deadline:
        if child.poll() is not None:
            return child.returncode
        with suppress(AssertionError):
            fields = stand.cluster.job(stand.job)
            if fields.get("Restarts", "0") != "0" and fields["JobState"] == "RUNNING":
                again = again or time.monotonic()
                if time.monotonic() - again > 10:
                    return None
        time.sleep(0.5)
    return None


def slurm_says(stand: Stand) -> str:
    """State, exit code and number of restarts of the job, from the accounting."""
    if not stand.job:
        return ""
    row = stand.cluster.run("sacct", "-nXP", "-o", "State,ExitCode", "-j", stand.job, check=False).split("\n")[0]
    fields = {}
    with suppress(AssertionError):
        fields = stand.cluster.job(stand.job)
    restarts = fields.get("Restarts", "0")
    return row + (f", restarted {restarts} times" if restarts != "0" else "")


def make_cluster(directory: Path, accounting: Accounting, names: tuple[str, ...]) -> Cluster:
    """Three nodes whose jobs have a limit on memory, and a partition whose jobs preempt others."""
    nodes = ",".join(names)
    common = f"Nodes={nodes} MaxTime=60 DefMemPerNode={JOB_MEMORY_MIB} State=UP"
    partitions = (
        f"PartitionName=main {common} Default=YES PriorityTier=1",
        f"PartitionName=urgent {common} PriorityTier=10",
    )
    lines = (
        "TaskPlugin=task/cgroup",
        "SelectTypeParameters=CR_Core_Memory",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "SlurmdTimeout=120",
        *partitions,
        *accounting.lines,
    )
    return Cluster(directory, nodes=names, tracking="cgroup", memory_mib=MEMORY_MIB, lines=lines)


def in_private(names: tuple[str, ...]) -> None:
    """Start again in a mount namespace where the nodes' names are in /etc/hosts: torchrun resolves them."""
    if os.environ.get(IN_PRIVATE):
        return
    with tempfile.NamedTemporaryFile("w", prefix="hosts-", delete=False) as file:
        file.write(Path("/etc/hosts").read_text() + "".join(f"127.0.0.1 {node}\n" for node in names))
    script = f'mount --bind {file.name} /etc/hosts && rm {file.name} && exec "$@"'
    words = [sys.executable, "-m", "benchmarks.slurm_failures", *sys.argv[1:]]
    os.environ[IN_PRIVATE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", script, "sh", *words])


def environment_of(options: argparse.Namespace, cluster: Cluster, directory: Path, tool: str) -> dict[str, str]:
    """Of the tool's command: its own environment's programs first, and all state below the directory."""
    homes = {"HOME": directory, "DDP_PLAY_HOME": directory / "state", "NEMORUN_HOME": directory / "nemo"}
    path = f"{options.peers / tool / 'bin'}:{cluster.environment['PATH']}"
    others = {"DDP_PLAY_REPORT": "no", "OMP_NUM_THREADS": "1", "COLUMNS": "160", "PATH": path}
    return {**os.environ, **cluster.environment, **{name: str(value) for name, value in homes.items()}, **others}


def play_all(options: argparse.Namespace, cluster: Cluster, tools: list[str]) -> list[Report]:
    """Each failure with each tool in turn."""
    reports = []
    for failure in [row for row in FAILURES if not options.only or row.name in options.only]:
        for tool in tools:
            directory = options.directory / failure.name.replace(" ", "-") / tool.replace(" ", "-")
            directory.mkdir(parents=True)
            place = Place(directory, options.peers, environment_of(options, cluster, directory, tool), cluster.nodes)
            stand = Stand(cluster, place, directory.with_suffix(".out"))
            report = play(stand, failure, tool)
            reports.append(report)
            console.print(
                f"{failure.name} | {tool} | {report.exit_code} | {report.slurm} | {report.seconds} s", markup=False
            )
            for line in report.words:
                console.print(f"    {line}", markup=False, highlight=False)
            cluster.tidy(QUIET_S)
            options.json.write_text(json.dumps([asdict(row) for row in reports], indent=2) + "\n")
    return reports


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, default=Path("/nonexistent"), help="environment with the other tools")
    parser.add_argument("--directory", type=Path, required=True, help="a new directory for all output")
    parser.add_argument("--only", action="append", choices=[row.name for row in FAILURES])
    parser.add_argument("--tool", action="append", choices=list(TOOLS))
    parser.add_argument("--prefix", default="n", help="of the nodes' names, for two clusters at once")
    parser.add_argument("--json", type=Path, default=Path("slurm-failures.json"))
    return parser.parse_args()


def main() -> None:
    """Play all, print the table."""
    options = parse()
    interrupt_on_signals()
    if reason := lacking() or lacking_control_groups() or lacking_accounting():
        sys.exit(reason)
    names = tuple(f"{options.prefix}{number}" for number in (1, 2, 3))
    in_private(names)
    found = versions(options.peers)
    tools = [name for name in options.tool or TOOLS if name in found or name in list(TOOLS)[:3]]
    console.print(f"versions: {found}; tools: {', '.join(tools)}")
    options.directory = options.directory.absolute()
    options.directory.mkdir(parents=True)
    where = options.directory / "cluster"
    where.mkdir()
    accounting = Accounting(where)
    cluster = make_cluster(where, accounting, names)
    try:
        cluster.start(accounting.start)
        reports = play_all(options, cluster, tools)
    finally:
        cluster.stop()
        accounting.stop()
    table = Table("failure", *tools)
    for failure in dict.fromkeys(row.failure for row in reports):
        cells = {row.tool: f"{row.exit_code} ({row.slurm})" for row in reports if row.failure == failure}
        table.add_row(failure, *(cells.get(tool, "") for tool in tools))
    console.print(table)


if __name__ == "__main__":
    main()
