"""Readings of `ddp-play check PLAYBOOK` in a container of the job: what a rank there may use, and what it sees.

ddp-play sends this file alone, and the image's Python runs it with an order as JSON: names to resolve, directories to
write to, and the name of the file there. It prints a line of JSON for each part, loads no torch, and needs the standard
library of Python 3.9.
"""

import json
import os
import platform
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

RESOLVE_S = 4.0
GROUPS = "/sys/fs/cgroup"


def say(part: str, **found: Any) -> None:
    """Print what a part has found."""
    sys.stdout.write(json.dumps({"part": part, **found}) + "\n")
    sys.stdout.flush()


def limits(groups: str = GROUPS) -> Row:
    """Limits of this process, and processes of its control group; None is no limit."""
    found: Row = {}
    for name in ("nofile", "memlock", "nproc"):
        soft, hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper()))
        found[name] = None if hard == resource.RLIM_INFINITY else hard
        found["soft_" + name] = None if soft == resource.RLIM_INFINITY else soft
    found["pids"] = None
    for folder in (groups, groups + "/pids"):  # control groups 2 and 1
        most = text(folder + "/pids.max")
        if most.isdigit():
            found["pids"] = {"max": int(most), "now": int(text(folder + "/pids.current") or 0)}
    return found


def text(path: str) -> str:
    """Content of a small file; empty if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def memory(path: str = "/dev/shm") -> Row:
    """Size and free space of the shared memory in MiB."""
    found = os.statvfs(path)
    return {
        "size_mib": found.f_blocks * found.f_frsize >> 20,
        "free_mib": found.f_bavail * found.f_frsize >> 20,
    }


def directories(paths: dict[str, str], file: str) -> Row:
    """By name: path, and why this file cannot be written there (empty: it can)."""
    return {"found": {name: {"path": path, "problem": write_problem(path, file)} for name, path in paths.items()}}


def write_problem(path: str, name: str) -> str:
    """Why this file cannot be written, synced, and removed in a directory. The host removes what a kill leaves."""
    place = Path(path, name)
    try:
        with place.open("xb") as file:
            try:
                file.write(b"x")
                file.flush()
                os.fsync(file.fileno())
            finally:
                place.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def versions() -> Row:
    """Versions of torch and numpy from their metadata, since importing torch takes seconds; empty if not there."""
    import importlib.metadata  # noqa: PLC0415 - only this part is missing then

    found = {}
    for name in ("torch", "numpy"):
        try:
            found[name] = importlib.metadata.version(name) or ""
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return {"python": platform.python_version(), **found}


def devices(folder: str = "/dev") -> Row:
    """Device files of GPUs, and of RDMA."""
    there = [path.name for path in Path(folder).iterdir()]
    gpus = [name for name in there if name.startswith("nvidia") and name[6:].isdigit()]
    rdma = [path.name for path in Path(folder, "infiniband").iterdir()] if "infiniband" in there else []
    return {"gpus": len(gpus), "rdma": sorted(rdma)}


def names(wanted: list[str], limit_s: float = RESOLVE_S) -> Row:
    """By name: addresses, or the error. A name without an answer at the limit has the error "no answer"."""
    found: Row = {name: {"addresses": [], "error": "no answer"} for name in wanted}

    def ask(name: str) -> None:
        try:
            rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            found[name] = {"addresses": sorted({str(row[4][0]) for row in rows}), "error": ""}
        except (OSError, UnicodeError) as error:
            found[name] = {"addresses": [], "error": getattr(error, "strerror", None) or str(error)}

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in wanted]
    until = time.monotonic() + limit_s
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {"found": dict(found)}


def attempt(part: str, read: Callable[[], Row]) -> None:
    """Say what a part has found, or why it has not."""
    try:
        say(part, **read())
    except Exception as error:  # noqa: BLE001 - whatever is wrong with a part is its answer
        say(part, problem=f"{type(error).__name__}: {error}"[:300])


def main(order: Row) -> None:
    """Do what is ordered; a directory that hangs comes last."""
    say("start", python=sys.executable, uid=os.getuid(), gid=os.getgid(), host=socket.gethostname())
    attempt("limits", limits)
    attempt("memory", memory)
    attempt("devices", devices)
    attempt("versions", versions)
    attempt("names", lambda: names(order["names"]))
    attempt("directories", lambda: directories(order["directories"], order["file"]))
    sys.stdout.flush()
    os._exit(0)  # a name that has no answer yet would keep the process


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
