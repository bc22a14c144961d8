"""Check that ranks can load MPI, in the environment in which they will run, before any of them starts."""

from __future__ import annotations

import os
import re
import subprocess
from typing import Any, Dict, List

from .programs import which
from .rank_user import process_options

TIMEOUT_S = 60.0
# Does not initialize MPI, which would connect to the process manager.
CODE = """
try:
    import mpi4py
    mpi4py.rc.initialize = False
    from mpi4py import MPI
except Exception as error:
    import torch.distributed
    if not torch.distributed.is_mpi_available():
        raise SystemExit("%s: %s" % (type(error).__name__, str(error).splitlines()[0]))
"""


def command(spec: Dict[str, Any]) -> List[str]:
    """Command of the check: the rank's Python, or python3 in a container like that of the host's first rank."""
    unit = spec["ranks"][0]
    first = unit["argv"][0]
    python = first if re.match(r"(.*/)?python[0-9.]*$", first) else "python3"
    if spec["runtime"] != "docker":
        return [python, "-c", CODE]
    words = unit["create"]
    image = words.index("--workdir") + 2
    return [which("docker") or "docker", "run", "--rm", *words[3 : image + 1], python, "-c", CODE]


def problem(spec: Dict[str, Any]) -> str:
    """Why the ranks cannot load MPI; empty if they can. Takes up to TIMEOUT_S."""
    env = dict(os.environ) if spec["runtime"] == "docker" else {}
    env.update(spec["ranks"][0]["env"])
    try:
        options = process_options(spec.get("user")) if spec["runtime"] != "docker" else {}
        done = subprocess.run(
            command(spec), env=env, cwd="/", capture_output=True, timeout=TIMEOUT_S, check=False, **options
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if not done.returncode:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "exit code %d" % done.returncode
