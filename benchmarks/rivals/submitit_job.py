"""The failing job with submitit, in the peers' environment: `submitit_job.py DIRECTORY KIND MINUTES`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import failing
import submitit


def main() -> int:
    """Submit, wait for the results, and print what submitit says of the end."""
    directory, kind, minutes = sys.argv[1:]
    executor = submitit.AutoExecutor(folder=f"{directory}/submitit", cluster="slurm")
    executor.update_parameters(
        nodes=2,
        tasks_per_node=2,
        timeout_min=int(minutes),
        slurm_partition="main",
        slurm_setup=[f"export PYTHONPATH={Path(__file__).resolve().parent}"],
    )
    job = executor.submit(failing.main, kind)
    print("job", job.job_id, flush=True)
    try:
        job.results()
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is to be reported
        print(f"state {job.state}")
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
