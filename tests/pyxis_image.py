"""An image for pyxis made of this machine: an empty root as .sqsh file, and what has a test's cluster load the plugin.

The plugin is DDP_PLAY_PYXIS=/path/spank_pyxis.so; enroot and mksquashfs are in PATH. Tests that need them are skipped
where they are missing, with the reason; DDP_PLAY_REQUIRE_PYXIS=1 makes that a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.apptainer_image import make_root
from tests.required import skip_or_fail

if TYPE_CHECKING:
    from collections.abc import Iterable

PLUGIN = "DDP_PLAY_PYXIS"
SLOW = "create*slow.sqsh"  # of an image of this name it takes long to make a container
SETS = {"FROM_IMAGE": "yes", "GREETING": "of the image"}  # variables, as ENV of a Dockerfile
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
        skip_or_fail("PYXIS", reason)


def made_image(where: Path) -> str:
    """A .sqsh file of a root directory without programs, which tells itself from the host by /etc/os-release."""
    root = make_root(where / "root")
    (root / "etc" / "environment").write_text("".join(f"{name}={value}\n" for name, value in SETS.items()))
    file = where / "image.sqsh"
    subprocess.run(["mksquashfs", root, file, "-quiet", "-no-progress"], check=True, capture_output=True, timeout=60)
    return str(file)


@dataclass(frozen=True)
class Plugin:
    """pyxis for a cluster of this machine; its files, and those of enroot, are in this directory."""

    directory: Path

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines of slurm.conf."""
        return (f"PlugStackConfig={self.directory}/plugstack.conf",)

    @property
    def programs(self) -> Path:
        """With a directory for each node."""
        return self.directory / "bin"

    def make(self, nodes: Iterable[str]) -> Plugin:
        """Write the files. Each node has its containers in a directory of its own, as machines have."""
        stack = self.directory / "plugstack.conf"
        stack.write_text(f"required {os.environ[PLUGIN]} runtime_path={self.directory}/runtime\n")
        for node in nodes:
            program = self.programs / node / "enroot"
            program.parent.mkdir(parents=True)
            data = f'export ENROOT_DATA_PATH={self.directory}/data/{node}\ncase "$*" in {SLOW}) sleep 60 ;; esac'
            program.write_text(f'#!/bin/sh\n{data}\nexec {shutil.which("enroot")} "$@"\n')
            program.chmod(0o755)
        return self

    def containers(self) -> list[str]:
        """The containers of all nodes: NODE/NAME."""
        data = self.directory / "data"
        return sorted(str(path.relative_to(data)) for path in data.glob("*/*"))
