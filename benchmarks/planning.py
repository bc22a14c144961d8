"""Planning time for many ranks: `python benchmarks/planning.py --hosts 1250 --gpus 8`.

It writes an inventory and cached host facts, then measures the planning function, the command `ddp-play plan --cached`
and `ddp-play plan --of FILE --rank N` of the plan that it wrote. It contacts no host. It prints a table and writes the
results as JSON.
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

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.planning.job import parse_job
from ddp_play.planning.planner import make_plan
from ddp_play.planning.rank_context import Caller
from ddp_play.run.dry_run import facts_cache

IMAGE = "team/train:2"
IMAGE_THERE = {"id": "sha256:" + "a" * 64, "digests": [], "entrypoint": []}
VARIABLES = {"command": ["python", "train.py"], "image": IMAGE}
console = Console()


def main() -> None:
    """Write inventory and facts, measure, print, write the results."""
    options = parse()
    facts = {name: host_facts(number, options.gpus) for number, name in enumerate(host_names(options.hosts))}
    with tempfile.TemporaryDirectory(prefix="ddp-play-plan-") as scratch:
        os.environ["DDP_PLAY_HOME"] = scratch
        report = {
            "machine": describe(),
            "hosts": options.hosts,
            "ranks": options.hosts * options.gpus,
            "function_s": measure_function(facts, options.repeats),
            **measure_command(facts, options.repeats, Path(scratch)),
        }
    show(report)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"results in {options.json}")


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=1250)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("planning-benchmark.json"))
    return parser.parse_args()


def host_names(count: int) -> list[str]:
    """Host names: gpu0001, gpu0002, and so on."""
    return [f"gpu{number:04}" for number in range(1, count + 1)]


def host_facts(number: int, num_gpus: int) -> dict[str, Any]:
    """Facts of a GPU server, as discovery returns them: two NUMA nodes, 1 Gb/s ethernet and 400 Gb/s InfiniBand."""
    tail = f"{number // 250}.{number % 250 + 1}"
    gpus: list[dict[str, Any]] = [
        {
            "index": index,
            "uuid": f"GPU-{number}-{index}",
            "model": "H100",
            "memory_mib": 81559,
            "users": [],
            "numa_node": index * 2 // num_gpus,
        }
        for index in range(num_gpus)
    ]
    nodes = [{"node": n, "cpus": f"{n * 64}-{n * 64 + 63}", "socket": n, "memory": True} for n in (0, 1)]
    port = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_gbps": 400.0, "link_layer": "InfiniBand"}
    user = {"name": "ops", "home": "/home/ops", "uid": 1000, "gid": 1000, "groups": {"docker": 998}}
    return {
        "hostname": f"gpu{number}", "machine": f"{number:032x}", "python": "/usr/bin/python3",
        "python_version": "3.11.2", "cpus": 128, "memory_mib": 2_000_000, "disk_free_mib": 500_000,
        "user": {**user, "login_uid": 1000, "login_gid": 1000, "login_name": "ops"},
        "nofile_hard": 1048576, "gpu_problem": "", "resolves_to": [f"10.0.{tail}"], "nccl_conf": True,
        "ephemeral_ports": [32768, 60999], "rank_python": {"path": "/usr/bin/python3", "problem": ""},
        "interfaces": [
            interface_facts("eth0", "ethernet", f"10.0.{tail}/16", 1000),
            interface_facts("ib0", "infiniband", f"10.9.{tail}/16", 400000),
        ],
        "numa": {"nodes": nodes, "numactl": True},
        "rdma": [{**port, "interfaces": ["ib0"]}], "gpus": gpus,
        "engine": {"version": "29.1.3", "problem": "", "image": IMAGE_THERE},
    }  # fmt: skip


def interface_facts(name: str, kind: str, address: str, speed: int) -> dict[str, Any]:
    """Facts of a network interface; `speed` in Mb/s."""
    return {"name": name, "link": kind, "addresses": [address], "up": True, "speed_mbps": speed, "mtu": 1500}


def measure_function(facts: dict[str, dict[str, Any]], repeats: int) -> list[float]:
    """Seconds of each call of the planning function."""
    job = parse_job(VARIABLES)
    known = tuple(facts_from_json(name, row) for name, row in facts.items())
    found = []
    for _ in range(repeats):
        started = time.monotonic()
        make_plan(job, known, (), Caller({}))
        found.append(time.monotonic() - started)
    return found


def measure_command(facts: dict[str, dict[str, Any]], repeats: int, home: Path) -> dict[str, Any]:
    """Seconds of each `ddp-play plan --cached` and `plan --of FILE --rank 1`; largest process in MiB, plan in MB."""
    inventory, playbook = home / "hosts.yml", home / "job.yml"
    inventory.write_text(yaml.safe_dump({"ranks": {"hosts": dict.fromkeys(facts)}}))
    role = {"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{name}": value for name, value in VARIABLES.items()}}
    playbook.write_text(yaml.safe_dump([{"hosts": "ranks", "gather_facts": False, "roles": [role]}]))
    cache = facts_cache(PlaybookRequest(str(playbook), (str(inventory),), str(home)))
    cache.parent.mkdir(parents=True)
    cache.write_text(json.dumps({name: cache_entry(name, row) for name, row in facts.items()}))
    command, plan = [str(Path(sys.executable).with_name("ddp-play")), "plan"], home / "plan.json"
    argv = [*command, str(playbook), "-i", str(inventory), "--cached"]
    walls, cpus = timed(argv, repeats)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    plan.write_bytes(subprocess.run([*argv, "--json"], check=True, stdout=subprocess.PIPE).stdout)
    ranks, _ = timed([*command, "--of", str(plan), "--rank", "1"], repeats)
    sizes = {"largest_process_mib": largest, "plan_mb": plan.stat().st_size / 1e6}
    return {"command_s": walls, "command_cpu_s": cpus, "rank_s": ranks, **sizes}


def timed(argv: list[str], repeats: int) -> tuple[list[float], list[float]]:
    """Wall and CPU seconds of each execution of a command."""
    walls, cpus = [], []
    for _ in range(repeats):
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        walls.append(time.monotonic() - started)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return walls, cpus


def cache_entry(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Entry of a host in the cache of facts."""
    return {"facts": facts, "variables": [], "route": {"host": name, "argv": ["ssh", name], "command": "sh"}}


def show(report: dict[str, Any]) -> None:
    """Print the medians."""
    times = {"function_s": "function s", "command_s": "command s", "command_cpu_s": "CPU s", "rank_s": "one rank s"}
    table = Table("ranks", "hosts", *times.values(), "largest process MiB", "plan MB")
    medians = [f"{statistics.median(report[key]):.2f}" for key in times]
    sizes = (f"{report['largest_process_mib']:.0f}", f"{report['plan_mb']:.2f}")
    table.add_row(str(report["ranks"]), str(report["hosts"]), *medians, *sizes)
    console.print(table)


if __name__ == "__main__":
    main()
