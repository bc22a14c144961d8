"""An image for Apptainer made of this machine: an empty root, and mounts that bring the system and the tests' Python.

Tests that start Apptainer are skipped where it cannot be had, with the reason; DDP_PLAY_REQUIRE_APPTAINER=1 makes that
a failure.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.required import skip_or_fail

NAME = "the image of a test"
OF_THE_SYSTEM = ("bin", "lib", "lib64", "sbin")


def make_root(where: Path) -> Path:
    """A sandbox directory without a file but /etc/os-release, which tells it from the host."""
    for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "var/tmp"):
        (where / name).mkdir(parents=True)
    for name in OF_THE_SYSTEM:
        if Path("/", name).is_symlink():
            (where / name).symlink_to(f"usr/{name}")
        elif Path("/", name).is_dir():
            (where / name).mkdir()
    (where / "etc" / "os-release").write_text(f'PRETTY_NAME="{NAME}"\n')
    (where / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (where / "etc" / "group").write_text("root:x:0:\n")
    return where


def mounts() -> list[str]:
    """What a job mounts into it: the system, and the Python of the tests with its packages."""
    system = [f"/{name}" for name in OF_THE_SYSTEM if Path("/", name).is_dir() and not Path("/", name).is_symlink()]
    python = {str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix)}
    outside = sorted(path for path in python if not path.startswith("/usr"))
    return [f"{path}:{path}:ro" for path in ("/usr", *system, *outside)]


def lacking(root: Path) -> str:
    """Why no rank can be started in this sandbox directory; empty if one can."""
    program = shutil.which("apptainer")
    if program is None:
        return "Apptainer is not installed here: no apptainer in PATH (tests/needs.py says where there is a package)"
    binds = [word for mount in mounts() for word in ("--bind", mount)]
    words = [program, "--quiet", "exec", "--no-home", *binds, str(root), "true"]
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return f"Apptainer starts nothing here: {lines[-1]}" if done.returncode else ""


def made_image(where: Path) -> str:
    """A sandbox directory in which Apptainer starts programs. Where it does not, the test is skipped, or fails."""
    if reason := lacking(make_root(where)):
        skip_or_fail("APPTAINER", reason)
    return str(where)
