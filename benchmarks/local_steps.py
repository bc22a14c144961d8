"""Step time of DDP ranks on this machine, under supervision compared with torchrun: `benchmarks/local_steps.py`.

Supervision is `ddp-play run` with ranks as processes; bare is `python -m torch.distributed.run` of the same script. A
round is four measurements in the order A B B A, so that a drift affects both equally. It prints the mean ratio of all
pairs with its 95 % interval and writes all results as JSON. The figures are valid only on an otherwise idle machine. It
exits 1 if the ratio is not known to 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from contenders import PROGRAM
from exchange import HALF_GOAL, interval
from machine import describe
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

RANK = Path(__file__).with_name("local_step_rank.py").resolve()
LIMIT_S = 600
console = Console()


@dataclass(frozen=True)
class Bench:
    """What is measured, and where its files are."""

    scratch: Path
    num_ranks: int
    num_warm_up: int
    num_steps: int
    width: int

    def rank_command(self, result: Path) -> list[str]:
        """Script of a rank and its arguments."""
        return [str(RANK), str(result), str(self.num_warm_up), str(self.num_steps), str(self.width)]


def main() -> None:
    """Measure, print the ratio, write the results."""
    options = parse()
    with tempfile.TemporaryDirectory(prefix="ddp-play-steps-", dir="/var/tmp") as scratch:
        bench = Bench(Path(scratch), options.ranks, options.warm_up, options.steps, options.width)
        pairs = measure(bench, options.rounds)
    ratio = interval([ours / bare for ours, bare in pairs])
    goal = f"half-width at most {HALF_GOAL}"
    console.print(f"supervised / bare, step: {ratio}, {len(pairs)} pairs ({goal})")
    report = {"machine": describe(), "ranks": bench.num_ranks, "width": bench.width, "steps": bench.num_steps}
    report |= {"pairs_s": pairs, "ratio": vars(ratio)}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"results in {options.json}")
    sys.exit(0 if ratio.half <= HALF_GOAL else 1)


def parse() -> argparse.Namespace:
    """Parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="ranks on this machine, one per GPU: default 2")
    parser.add_argument("--steps", type=int, default=2000, help="steps that are measured each time")
    parser.add_argument("--warm-up", type=int, default=100, help="steps before them")
    parser.add_argument("--width", type=int, default=512, help="of the network's layers")
    parser.add_argument("--rounds", type=int, default=5, help="of A B B A, two pairs each")
    parser.add_argument("--json", type=Path, default=Path("local-steps-benchmark.json"))
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def measure(bench: Bench, num_rounds: int) -> list[tuple[float, float]]:
    """Seconds per step (supervised, bare) of each pair."""
    pairs = []
    for number in range(2 * num_rounds):
        order: tuple[Callable[[Bench], float], ...] = (supervised, bare) if number % 2 == 0 else (bare, supervised)
        found = {way: way(bench) for way in order}
        pairs.append((found[supervised], found[bare]))
        console.print(f"pair {number + 1}: {1000 * pairs[-1][0]:.3f} / {1000 * pairs[-1][1]:.3f} ms")
    return pairs


def supervised(bench: Bench) -> float:
    """Seconds per step under `ddp-play run`."""
    result = bench.scratch / "supervised.json"
    job = {
        "ddp_job_runtime": "process",
        "ddp_job_command": ["python", *bench.rank_command(result)],
        "ddp_job_ranks_per_host": bench.num_ranks,
        "ddp_job_env": {"OMP_NUM_THREADS": "1"},
    }
    play = {"hosts": "ranks", "gather_facts": False, "roles": [{"role": "ddp.play.ddp_job", "vars": job}]}
    python = {"ansible_python_interpreter": sys.executable, "ddp_python": sys.executable}
    host = {"ansible_connection": "local", **python, "ddp_slots": bench.num_ranks}
    playbook, inventory = bench.scratch / "job.yml", bench.scratch / "hosts.yml"
    playbook.write_text(json.dumps([play]))
    inventory.write_text(json.dumps({"ranks": {"hosts": {"localhost": host}}}))
    places = {"DDP_PLAY_HOME": str(bench.scratch / "home"), "DDP_PLAY_HOST_DIR": str(bench.scratch / "host")}
    return step_s([PROGRAM, "run", str(playbook), "-i", str(inventory), "--plain"], result, places)


def bare(bench: Bench) -> float:
    """Seconds per step under torchrun."""
    result = bench.scratch / "bare.json"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(bench.num_ranks)]
    return step_s([sys.executable, *torchrun, *bench.rank_command(result)], result, {"OMP_NUM_THREADS": "1"})


def step_s(argv: list[str], result: Path, more: dict[str, str]) -> float:
    """Run it and read the result; RuntimeError with its output if it fails."""
    environment = {**os.environ, **more}
    result.unlink(missing_ok=True)
    done = subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    if done.returncode or not result.exists():
        raise RuntimeError(f"{argv} ended with {done.returncode}:\n{done.stdout[-800:]}{done.stderr[-2000:]}")
    return float(json.loads(result.read_text())["step_s"])


if __name__ == "__main__":
    main()
