"""NVIDIA's own diagnostic of all GPUs of this host, `dcgmi diag`: its output as it is, within a time limit.

nv-hostengine runs it, and dcgmi waits. dcgmi stops it on SIGTERM (dcgmi/Diag.cpp of NVIDIA/DCGM, versions 2 to 4); if
dcgmi is killed it may go on, on GPUs that get another load next.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any, Dict

from . import programs
from .bounded_reading import NotReadableHere

MAX_OUTPUT = 192 << 10  # characters; more than 100 GPUs need. As JSON in JSON it stays below the limit of an answer.


def installed() -> str:
    """Path of dcgmi; empty without it."""
    return programs.which("dcgmi") or ""


def run(level: int, limit_s: float, stop_s: float) -> Dict[str, Any]:
    """`exit_code`, `output` and the end of its `errors`; `problem` where it was stopped at its limit.

    `stop_s`: for dcgmi to stop the diagnostic.
    """
    path = installed()
    if not path:
        raise NotReadableHere("no dcgmi")
    words = [path, "diag", "-r", str(level), "-j"]
    environment, problem = {**os.environ, "LC_ALL": "C"}, ""
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            output, errors, problem = b"", b"", "no end within %g s" % limit_s + _stop(process, stop_s)
    found: Dict[str, Any] = {
        "exit_code": process.returncode,
        "output": output.decode("utf-8", "replace")[:MAX_OUTPUT],
        "errors": errors.decode("utf-8", "replace")[-400:],
    }
    return {**found, "problem": problem} if problem else found


def _stop(process: "subprocess.Popen[bytes]", stop_s: float) -> str:
    """End dcgmi, with its diagnostic if it can stop that in time; else, what is said of it."""
    process.terminate()
    try:
        process.communicate(timeout=stop_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return ", and it could not be stopped"
    return ""
