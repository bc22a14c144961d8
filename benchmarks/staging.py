"""Preparation of a lab for benchmarks: image, payload, and torch in the shared directory."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from contenders import SHARED, TORCH_ENV
from rich.console import Console

from ddp_play.images.ssh_access import resolve

if TYPE_CHECKING:
    from collections.abc import Iterable

IMAGE = "ddp-play-rank:slim"
console = Console()


def fetch(packages: Path, wheels: Iterable[Path] = ()) -> None:
    """Install torch and numpy in the versions of the controller, and more wheels, into the directory `packages`."""
    wanted = [f"{package}=={version(package)}" for package in ("torch", "numpy")] + [str(wheel) for wheel in wheels]
    console.print(f"installing {' '.join(Path(name).name for name in wanted)}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(packages), *wanted], check=True, stdin=subprocess.DEVNULL)


def stage(inventory: str, packages: Path) -> None:
    """Copy the payload, and the packages if they exist, to the shared directory through the first host."""
    first = resolve(inventory)[0]
    payload = Path(__file__).with_name("payload.py")
    with payload.open("rb") as file:
        done = first.run(f"mkdir -p {SHARED}/bench && cat > {SHARED}/bench/payload.py", stdin=file)
    if done.returncode != 0:
        sys.exit(f"cannot write to {SHARED}: {done.stderr.decode()}")
    if not packages.exists():
        return
    console.print("copying the packages to the shared directory")
    with subprocess.Popen(["tar", "-C", str(packages), "-c", "."], stdout=subprocess.PIPE) as tar:
        assert tar.stdout is not None
        done = first.run(f"mkdir -p {TORCH_ENV} && tar -C {TORCH_ENV} -x", stdin=tar.stdout)
    if done.returncode != 0 or tar.returncode != 0:
        sys.exit(f"cannot copy the packages to the shared directory: {done.stderr.decode()}")


def command(*words: str) -> None:
    """Run `ddp-play WORDS...`; CalledProcessError if it fails."""
    argv = [str(Path(sys.executable).with_name("ddp-play")), *words]
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)
