"""Tools that run the same failing job on a Slurm cluster: each as a command that submits it and waits for its end.

TorchX, submitit and NeMo-Run have an environment each, because NeMo-Run replaces TorchX's schedulers; srun in an
sbatch script is Slurm alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rivals.failing import __file__ as failing

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).resolve().parent
FAILING = str(Path(failing).resolve())
PROGRAM = str(Path(sys.executable).with_name("ddp-play"))
NODES, RANKS_PER_NODE = 2, 2
# Of a hang, which ends nothing by itself: ddp-play's own limit. The others have Slurm's.
IDLE_TIMEOUT_S = 15


@dataclass(frozen=True)
class Place:
    """Where a tool runs: a directory of its own that all nodes share, the peers' environment, and the cluster's."""

    directory: Path
    peers: Path
    environment: dict[str, str]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Wish:
    """What a tool has to run: the kind of failure, and the partition's time limit in minutes."""

    kind: str
    minutes: int


def srun(place: Place, wish: Wish) -> list[str]:
    """An sbatch script whose last command is srun."""
    script = place.directory / "job.sh"
    words = f"srun --mpi=none --kill-on-bad-exit=1 {sys.executable} {FAILING} '{wish.kind}'"
    script.write_text(f"#!/bin/sh\n{words}\n")
    options = (f"--nodes={NODES}", f"--ntasks-per-node={RANKS_PER_NODE}", f"--time={wish.minutes}", "--exclusive")
    return ["sbatch", "--wait", *options, str(script)]


def ddp_play(place: Place, wish: Wish) -> list[str]:
    """`ddp-play run --on slurm`. Slurm's time limit is that of the others."""
    variables = {
        "ddp_job_command": [sys.executable, FAILING, wish.kind],
        "ddp_job_hosts": NODES,
        "ddp_job_ranks_per_host": RANKS_PER_NODE,
        "ddp_job_grace": 5,
        # Slurm warns up to a minute early; the limit on silence has to come first
        "ddp_job_slurm": {"time": str(wish.minutes + (2 if wish.kind == "hang" else 0))},
        **({"ddp_job_idle_timeout": IDLE_TIMEOUT_S} if wish.kind == "hang" else {}),
    }
    role = {"role": "ddp.play.ddp_job", "vars": variables}
    (place.directory / "train.yml").write_text(json.dumps([{"hosts": "ranks", "gather_facts": False, "roles": [role]}]))
    hosts = {}
    for node in place.nodes:
        (place.directory / node).mkdir(exist_ok=True)
        row = {"ddp_slots": 50, "ddp_state_dir": str(place.directory / node)}
        hosts[node] = {**row, "ansible_python_interpreter": sys.executable}
    (place.directory / "hosts.json").write_text(json.dumps({"ranks": {"hosts": hosts}}))
    return [PROGRAM, "run", "train.yml", "-i", "hosts.json", "--on", "slurm"]


def exported(place: Place, wish: Wish) -> list[str]:
    """The script of `ddp-play export --to slurm`, submitted by hand."""
    words = ddp_play(place, wish)
    name = "exported.sh"
    export = [PROGRAM, "export", "train.yml", "--to", "slurm", "--output", name, *words[3:5]]
    export += ["--slurm", f"time={wish.minutes}"]  # also of a hang, which the script does not notice
    environment = {**place.environment, "DDP_PLAY_HOME": str(place.directory / "state")}
    subprocess.run(export, cwd=place.directory, env=environment, check=True, capture_output=True)
    return ["sbatch", "--wait", f"--chdir={place.directory}", name]


def torchx(place: Place, wish: Wish) -> list[str]:
    """`torchx run` of its own component for DDP, which starts torchrun on each node."""
    config = f"partition=main,time={wish.minutes}"
    job = ["dist.ddp", "-j", f"{NODES}x{RANKS_PER_NODE}", "--script", FAILING, "--", wish.kind]
    return [
        str(place.peers / "torchx/bin/torchx"),
        "run",
        "--wait",
        "--log",
        "--scheduler",
        "slurm",
        "-cfg",
        config,
        *job,
    ]


def submitit(place: Place, wish: Wish) -> list[str]:
    """A function in one task per rank, whose results are waited for."""
    return _script(place, "submitit", wish)


def nemo_run(place: Place, wish: Wish) -> list[str]:
    """An experiment of one task, which is waited for."""
    return _script(place, "nemo-run", wish)


def _script(place: Place, name: str, wish: Wish) -> list[str]:
    python = str(place.peers / name / "bin/python")
    return [python, str(HERE / f"{name.replace('-', '_')}_job.py"), str(place.directory), wish.kind, str(wish.minutes)]


TOOLS: dict[str, Callable[[Place, Wish], list[str]]] = {
    "srun": srun,
    "ddp-play": ddp_play,
    "exported script": exported,
    "torchx": torchx,
    "submitit": submitit,
    "nemo-run": nemo_run,  # below a directory nemo_run, NeMo-Run replaces that word by its own path
}
PACKAGES = ("torchx", "submitit", "nemo-run")


def versions(peers: Path) -> dict[str, str]:
    """Version of each peer whose environment is `peers`/NAME."""
    found = {}
    for name in PACKAGES:
        python = peers / name / "bin/python"
        if python.exists():
            code = f"import importlib.metadata as m; print(m.version('{name}'))"
            done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
            found |= {name: done.stdout.strip()} if done.returncode == 0 else {}
    return found
