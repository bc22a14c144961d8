"""A program in the ranks' Python on this host, with a time limit, and what it prints: a line of JSON for each part."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List

from . import leases, machine_readings
from .host_counters import busy_seconds, stolen_seconds

MAX_OUTPUT = 256 << 10
ERROR_BYTES = 4096
PIECE = 1 << 16


def run(python: str, source: str, order: Dict[str, Any], limit_s: float) -> Dict[str, Any]:
    """The parts that it printed until its end or its limit, with the `problem` where it did not end well.

    It has a session of its own, and all that it started ends with it. `before` and `after` are counters of this host.
    """
    before, began = counters(), time.monotonic()
    words = [python, "-c", source, json.dumps(order)]
    process = subprocess.Popen(
        words, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        output, errors, ended = _read(process, began + limit_s)
    finally:
        _end(process)
    found = {"parts": parts(output), "before": before, "after": counters(), "seconds": time.monotonic() - began}
    if not ended:
        return {**found, "problem": "no end within %g s" % limit_s}
    if process.returncode:
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return {**found, "problem": (lines or ["exit code %d" % process.returncode])[-1][:300]}
    return found


def busy(port: int) -> Dict[str, Any]:
    """The answer to an order whose program was not begun, because a run has its port. Another port may be free."""
    return {"program": {"value": {"parts": [], "problem": "a run has port %d" % port, "busy": True}}}


def with_port(port: Any, begin: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    """What `begin` answers while this port belongs to no run; `busy` where a run has it. None: it needs no port."""
    if not port:
        return begin()
    lease = leases.hold("port-%d" % int(port))
    if lease is None:
        return busy(int(port))
    with lease:
        return begin()


def _read(process: "subprocess.Popen[bytes]", until: float) -> "tuple[bytes, bytes, bool]":
    """What it wrote on stdout, the end of stderr, and whether it has ended."""
    out, err = (pipe.fileno() for pipe in (process.stdout, process.stderr) if pipe is not None)
    data = {out: b"", err: b""}
    waiting = list(data)
    while waiting:
        ready = select.select(waiting, [], [], max(0.0, until - time.monotonic()))[0]
        if not ready:
            break
        for pipe in ready:
            piece = os.read(pipe, PIECE)
            if not piece:
                waiting.remove(pipe)
            elif pipe == out:
                data[pipe] = (data[pipe] + piece)[:MAX_OUTPUT]
            else:
                data[pipe] = (data[pipe] + piece)[-ERROR_BYTES:]
    ended = not waiting
    if ended:
        try:
            process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            ended = False
    return data[out], data[err], ended


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End it with all that it has started."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel
        process.wait(1.0)


def parts(output: bytes) -> List[Dict[str, Any]]:
    found = []
    for line in output.decode("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append(row)
    return found


def counters(root: str = "") -> Dict[str, float]:
    """What takes CPU time from a process: held back by a quota, taken by the hypervisor or by others, too hot."""
    held = machine_readings.cpu_quota(root)["times_throttled"]
    hot = 0
    for name in ("core_throttle_count", "package_throttle_count"):
        for cpu in _names(root + "/sys/devices/system/cpu"):
            text = machine_readings.text("%s/sys/devices/system/cpu/%s/thermal_throttle/%s" % (root, cpu, name))
            hot += int(text) if text.isdigit() else 0
    stat = machine_readings.text(root + "/proc/stat").encode()
    busy_s = stolen_s = 0.0
    with contextlib.suppress(ValueError, IndexError):
        busy_s, stolen_s = busy_seconds(stat), stolen_seconds(stat)
    return {"times_held_back": held, "times_too_hot": hot, "busy_s": busy_s, "stolen_s": stolen_s}


def _names(path: str) -> List[str]:
    try:
        return [name for name in os.listdir(path) if name.startswith("cpu") and name[3:].isdigit()]
    except OSError:
        return []
