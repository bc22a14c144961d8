"""A verb of ddp-play inside an allocation: `python -m ddp_play.run.allocated_verb DIRECTORY`, the script of its job.

The verb itself does not know: it gets an inventory of the job's nodes. Its output is in two files, which the command on
the login node copies, and its exit code in a third.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.verb_paths import VerbPaths
from ddp_play.engines import slurm_commands
from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.run.allocated_nodes import binds_tasks, inventory, job_hosts, signals_script_alone, use_engine

MODULE = "ddp_play.run.allocated_verb"


def run_verb(paths: VerbPaths, ask: slurm_commands.Ask) -> int:
    """Run the verb on the nodes of the job around this process; returns its exit code."""
    job_id = use_engine()
    order = read_json(paths.order)
    if not Path(order["cwd"]).is_dir():
        hint = "run it in a directory that all nodes have"
        raise HostNotReady(f"{os.uname().nodename} has no {order['cwd']}", hint=hint)
    hosts = job_hosts(ask)
    write_json(paths.hosts, inventory(hosts, job_id, binding=binds_tasks(ask)))  # JSON is YAML
    alone = signals_script_alone(ask)
    argv = [sys.executable, "-P", "-m", "ddp_play", *order["argv"], "-i", str(paths.hosts), "--limit", ",".join(hosts)]
    with paths.out.open("ab") as out, paths.err.open("ab") as err:
        child = subprocess.Popen(argv, cwd=order["cwd"], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        signal.signal(signal.SIGTERM, lambda *_: _pass_on(child, job_id, ask, alone=alone))
        return child.wait()


def _pass_on(child: subprocess.Popen[Any], job_id: str, ask: slurm_commands.Ask, *, alone: bool) -> None:
    """Let the verb end in order, once: another signal would have it leave at once.

    Of a job that ends Slurm signals all processes, or the script `alone`; of one whose time ends soon, the script.
    """
    if not alone and slurm_commands.shown(ask, "job", job_id).get("JobState") != "RUNNING":
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.terminate()


def main() -> None:
    """Exit with the verb's exit code."""
    paths = VerbPaths(Path(sys.argv[1]))
    try:
        code = run_verb(paths, slurm_commands.ask)
    except DdpPlayError as error:
        with paths.err.open("a", encoding="utf-8") as err:
            err.write(f"error: {error}\n")
        code = error.exit_code
    code = code if code >= 0 else 128 - code
    write_json(paths.end, {"code": code})
    sys.exit(code)


if __name__ == "__main__":
    main()
