"""An image for pyxis made of this machine: an empty root as .sqsh file, and a cluster's line that loads the plugin.

The plugin is DDP_PLAY_PYXIS=/path/spank_pyxis.so; enroot and mksquashfs are in PATH. Tests that need them are skipped
where they are missing, with the reason; DDP_PLAY_REQUIRE_PYXIS=1 makes that a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.apptainer_image import make_root

PLUGIN = "DDP_PLAY_PYXIS"
PROGRAMS = ("enroot", "mksquashfs", "unsquashfs")


def lacking() -> str:
    """Why no container can be made here; empty if one can."""
    if not os.environ.get(PLUGIN):
        return f"pyxis is not installed here: {PLUGIN} names no spank_pyxis.so"
    if not Path(os.environ[PLUGIN]).is_file():
        return f"{PLUGIN}={os.environ[PLUGIN]} does not exist"
    if missing := [program for program in PROGRAMS if not shutil.which(program)]:
        return f"pyxis is not usable here: no {', '.join(missing)} in PATH"
    return ""


def required() -> None:
    """Skip the test, or fail it, where pyxis cannot be had."""
    if reason := lacking():
        if os.environ.get("DDP_PLAY_REQUIRE_PYXIS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def made_image(where: Path) -> str:
    """A .sqsh file of a root directory without programs, which tells itself from the host by /etc/os-release."""
    root = make_root(where / "root")
    file = where / "image.sqsh"
    subprocess.run(["mksquashfs", root, file, "-quiet", "-no-progress"], check=True, capture_output=True, timeout=60)
    return str(file)


def plugin_lines(where: Path) -> tuple[str, ...]:
    """Lines of a slurm.conf that load the plugin; its own files are in this directory."""
    where.mkdir(parents=True)
    stack = where / "plugstack.conf"
    stack.write_text(f"required {os.environ[PLUGIN]} runtime_path={where}/runtime\n")
    return (f"PlugStackConfig={stack}",)


def containers(home: Path) -> list[str]:
    """Names of the containers that enroot has for a user with this home."""
    env = {**os.environ, "HOME": str(home)}
    done = subprocess.run(["enroot", "list"], env=env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()
