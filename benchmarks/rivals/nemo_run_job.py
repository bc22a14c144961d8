"""The failing job with NeMo-Run, in its environment: `nemo_run_job.py DIRECTORY KIND MINUTES`, with NEMORUN_HOME."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nemo_run

FAILING = Path(__file__).resolve().with_name("failing.py")


def main() -> int:
    """Submit, wait for the end, and print the experiment's status."""
    _, kind, minutes = sys.argv[1:]
    executor = nemo_run.SlurmExecutor(
        account="team",
        partition="main",
        nodes=2,
        ntasks_per_node=2,
        time=f"00:{int(minutes):02d}:00",
        tunnel=nemo_run.LocalTunnel(job_dir=f"{os.environ['NEMORUN_HOME']}/experiments"),
        packager=nemo_run.Packager(),
    )
    script = nemo_run.Script(inline=f"exec {sys.executable} {FAILING} '{kind}'")
    with nemo_run.Experiment("failing") as experiment:
        experiment.add(script, executor=executor, name="ranks")
        experiment.run(detach=False, tail_logs=False)
    experiment.status()
    return 0


if __name__ == "__main__":
    sys.exit(main())
