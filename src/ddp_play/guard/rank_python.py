"""Python of ranks without containers, and its package versions, asked again when a file changes that decides them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from .kept_facts import KeptFacts, Stamp, is_settled, stamp
from .programs import which
from .rank_user import User, acting_as, process_options, wanted_user

# A program for that Python. It prints the versions, and then the files that decide them or "unknown". The versions of
# packages are from their metadata, because importing torch takes seconds.
PYTHON_VERSION = """
import os, platform, sys
versions, files = [platform.python_version()], [os.path.join(sys.prefix, "pyvenv.cfg")]
try:
    with open("/proc/self/maps", errors="surrogateescape") as maps:
        files += [line.split(None, 5)[5].rstrip() for line in maps if "/libpython" in line]
    if not os.path.samefile("/proc/self/exe", sys.argv[1]):
        files.append("unknown")  # a program in its place chose this Python
except OSError:
    files.append("unknown")
"""
PACKAGE_VERSIONS = """
import importlib.metadata
for name in ("torch", "mpi4py"):
    try:
        found = importlib.metadata.distribution(name)
        versions.append(found.version or "")
    except importlib.metadata.PackageNotFoundError:
        versions.append("")
    else:
        folder = str(getattr(found, "_path", "unknown"))
        files += [folder, os.path.join(folder, "METADATA"), os.path.join(folder, "PKG-INFO")]
for folder in map(str, sys.path):
    files.append(folder)
    try:
        names = os.listdir(folder) if os.path.isdir(folder) else []
    except OSError:
        names, folder = ["unknown.pth"], ""
    files += [os.path.join(folder, name) for name in names if name.endswith(".pth") or name == "sitecustomize.py"]
"""
PRINT = """
versions += [""] * (3 - len(versions))
sys.stdout.buffer.write(os.fsencode("\\n".join(versions + files)))
"""
NUM_VERSIONS = 3
BINARY = b"\x7fELF"
TIMEOUT_S = 20
LIBRARIES = "/etc/ld.so.cache"
# With them another library could be loaded.
VARIABLES = ("LD_LIBRARY_PATH", "LD_PRELOAD")


def facts(wanted: Dict[str, Any], user: Dict[str, Any], kept: KeptFacts) -> Dict[str, Any]:
    """Python for ranks without containers (`python`, else the first python3 on PATH), with its package versions.

    It runs as the ranks' user, who may be able to replace it.
    """
    ranks_user = wanted_user(wanted.get("user"), user)
    path, packages = wanted.get("python") or which("python3") or sys.executable, _wants_packages(wanted)
    variables = [os.environ.get(name) for name in VARIABLES]
    question = [path, packages, ranks_user["uid"], ranks_user["gid"], variables]
    known = kept.find(question)
    if known is not None and _stamp([row[0] for row in known[1]], ranks_user) == known[1]:
        return known[0]
    asked = time.time()
    answer, files = ask(path, packages=packages, user=ranks_user)
    found = None if answer["problem"] else _stamp([path, *_environments(path), LIBRARIES, *files], ranks_user)
    if found is not None and is_settled(found, asked):
        kept.keep(question, answer, found)
    return answer


def _wants_packages(wanted: Dict[str, Any]) -> bool:
    """Ranks in images use the packages of the image; a check compares those of the hosts even so."""
    return bool(wanted.get("packages", not (wanted.get("engine") or wanted.get("apptainer"))))


def ask(path: str, *, packages: bool, user: User = None) -> Tuple[Dict[str, str], List[str]]:
    """(what this Python answers or why it cannot be run, files that decide the answer)."""
    answer = {"path": path, "version": "", "problem": "", "torch": "", "mpi4py": ""}
    code = ["-c", PYTHON_VERSION + PACKAGE_VERSIONS + PRINT] if packages else ["-S", "-c", PYTHON_VERSION + PRINT]
    try:
        options = process_options(user)
        done = subprocess.run(
            [path, "-I", *code, path], cwd="/", capture_output=True, timeout=TIMEOUT_S, check=True, **options
        )
    except (OSError, subprocess.SubprocessError) as error:
        answer["problem"] = "%s cannot be run (%s)" % (path, getattr(error, "strerror", None) or error)
        return answer, []
    lines = [*os.fsdecode(done.stdout).split("\n"), "", ""]
    answer["version"], answer["torch"], answer["mpi4py"] = (line.strip() for line in lines[:NUM_VERSIONS])
    return answer, [line for line in lines[NUM_VERSIONS:] if line]


def _environments(path: str) -> List[str]:
    """Files that make a Python one of a virtual environment."""
    folder = os.path.dirname(path)
    return [os.path.join(at, "pyvenv.cfg") for at in (folder, os.path.dirname(folder))]


def _stamp(files: List[str], user: User) -> Optional[Stamp]:
    """Stamp of a Python, the first of these files, and of the others; None if its user cannot run it, or see a file.

    None of a script, too: it may start another Python at any time.
    """
    try:
        with acting_as(user), open(os.open(files[0], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as program:
            is_binary = program.read(len(BINARY)) == BINARY
            return stamp(files) if is_binary and os.access(files[0], os.X_OK, effective_ids=True) else None
    except OSError:
        return None
