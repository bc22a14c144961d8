"""Bundles for tests of reports: any number of ranks, metrics and samples of any length, as a run would leave them."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, home, write_json
from ddp_play.bundle.samples import file_text
from tests.unit.build import gpus, hosts, plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.planning.plan_document import Plan

CREATED = 1_900_000_000.0
GB = 10**9


def ended_bundle(
    name: str = "calm-otter-1", *, num_hosts: int = 2, ranks_per_host: int = 1, length: float = 60.0, **document: Any
) -> RunPaths:
    """A run that ended well after `length` seconds, with logs and env-files; `document` replaces fields of run.json."""
    paths = RunPaths(home() / "runs" / name)
    paths.create()
    facts = hosts(num_hosts, gpus=gpus(ranks_per_host)) if ranks_per_host > 1 else hosts(num_hosts)
    made = plan(*facts)
    write_json(paths.plan, made.to_json())
    write_json(paths.run, {**_document(name, made, length), **document})
    _write_events(paths, made, length)
    for host in made.hosts:
        for rank in host.ranks:
            lines = "".join(f"step {step} loss {1 / (step + 1):.4f} on rank {rank}\n" for step in range(300))
            paths.log(rank).write_text(lines, encoding="utf-8")
            env = "".join(f"# {var.source}\n{var.name}={var.value}\n" for var in host.rank(rank).env)
            paths.env(rank).write_text(env, encoding="utf-8")
    return paths


def _document(name: str, made: Plan, length: float) -> dict[str, Any]:
    names = [host.name for host in made.hosts]
    rows = [rank_row(rank, host.name, length) for host in made.hosts for rank in host.ranks]
    carried = {"eth0": {"rx": 40 * GB, "tx": 41 * GB}, "lo": {"rx": 5_000_000, "tx": 5_000_000}}
    return {
        "id": name, "status": "succeeded", "created": CREATED, "started": CREATED + 2, "ended": CREATED + length,
        "finished": True, "exit_code": 0, "exit_class": "done", "job": "train", "owner": "ops", "controller": "head",
        "hosts": names, "world_size": made.world_size, "argv": ["ddp-play", "run", "train.yml", "-i", "hosts.yml"],
        "verdict": {"kind": "done", "message": f"all {made.world_size} ranks exited 0", "exit_code": 0}, "ranks": rows,
        "network": {"fabric": made.fabric, "hosts": {host: {"planned": "eth0", "carried": carried} for host in names}},
        "versions": {"ddp-play": "0.1.0"}, "missing": [], "left_behind": {},
        "host_versions": {host: {"python": "3.11.2", "engine": "28.1.0"} for host in names},
    }  # fmt: skip


def rank_row(rank: int, host: str, length: float = 60.0, **fields: Any) -> dict[str, Any]:
    """A rank of run.json that ended well; `fields` replace its own."""
    return {"rank": rank, "host": host, "state": "exited", "exit_code": 0, "started": CREATED + 2.0,
            "ended": CREATED + length - 1, "log_bytes": 9000, "log_complete": True, **fields}  # fmt: skip


def _write_events(paths: RunPaths, made: Plan, length: float) -> None:
    events: list[dict[str, Any]] = [
        {"time": CREATED + 1, "type": "phase", "phase": "preparing"},
        {"time": CREATED + 2, "type": "started", "world_size": made.world_size},
        {"time": CREATED + 2, "type": "phase", "phase": "running"},
    ]
    events += [
        {"time": CREATED + 2, "type": "rank", "rank": rank, "host": host.name, "state": "running", "ok": False,
         "stopped": False, "how": ""} for host in made.hosts for rank in host.ranks
    ]  # fmt: skip
    events += [
        {"time": CREATED + length - 1, "type": "phase", "phase": "collecting"},
        {"time": CREATED + length, "type": "ended", "status": "succeeded", "message": "all ranks exited 0"},
    ]
    write_rows(paths.events, events)


def write_rows(path: Any, rows: Sequence[dict[str, Any]]) -> None:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_metrics(paths: RunPaths, ranks: Sequence[int], *, length: float, every_s: float) -> None:
    """Loss, rate and learning rate of these ranks, a row each `every_s`."""
    count = int(length / every_s)
    for rank in ranks:
        lines = [metric_line(rank, step, step / count, 2 + step * every_s) for step in range(count)]
        paths.metrics(rank).write_text("".join(lines), encoding="utf-8")


def metric_line(rank: int, step: int, part: float, at: float) -> str:
    """A row of metrics at `at` seconds; rank 5 is slower than the others."""
    loss = 2 / (1 + step / 900) + 0.1 * math.sin(step + rank)
    rate = 2000 + 40 * math.cos(step * (1 + rank)) - (300 if rank == 5 else 0)
    own = f'"time": {CREATED + at:.3f}, "rank": {rank}, "step": {step}'
    return f'{{{own}, "loss": {loss:.5f}, "samples_per_s": {rate:.1f}, "lr": {0.1 * (1 - part):.6f}}}\n'


def write_samples(paths: RunPaths, *, length: float, every_s: float, num_gpus: int = 0) -> None:
    """Samples of all hosts of the plan, a row each `every_s`."""
    document = json.loads(paths.plan.read_text(encoding="utf-8"))
    for number, host in enumerate(document["hosts"]):
        ranks = range(host["first_rank"], host["first_rank"] + host["num_ranks"])
        header: dict[str, Any] = {"host": host["name"], "cores": 64, "memory_total": 512 * GB, "format": 1}
        if num_gpus:
            header["gpus"] = {str(gpu): {"name": "NVIDIA H100"} for gpu in range(num_gpus)}
        rows = [sample_row(at * every_s, every_s, number, ranks, num_gpus) for at in range(1, int(length / every_s))]
        path = paths.samples(host["name"])
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file_text(header, rows))


def sample_row(at: float, every_s: float, host: int, ranks: Sequence[int], num_gpus: int = 0) -> dict[str, Any]:
    """A sample that ends `at` seconds after the run was created."""
    wave = math.sin(at / 500 + host)
    row: dict[str, Any] = {
        "t": CREATED + at, "s": every_s, "attempt": 1, "cpu": 8 + wave, "memory": int((100 + 5 * wave) * GB),
        "nics": {"eth0": [int(1e8 * (1 + wave)), int(1.1e8 * (1 + wave))], "lo": [1000, 1000]},
        "disk": [int(1e6 * (2 + wave)), 500], "ranks": {str(rank): {"cpu": 1.0, "memory": 4 * GB} for rank in ranks},
    }  # fmt: skip
    if num_gpus:
        row["gpus"] = {str(gpu): {"utilization": 90 + 5 * wave, "memory": 60 * GB, "power": 600 + 50 * wave,
                                  "temperature": 60 + gpu, "sm_clock": 1980} for gpu in range(num_gpus)}  # fmt: skip
    return row
