"""The packages of the group `frameworks` for the hosts: a virtual environment on the directory that all hosts share.

They are copied from the environment of the tests, so that hosts need no network.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.lab.rank_jobs import SHARED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.lab.conftest import Lab

FRAMEWORKS = ("accelerate", "deepspeed", "lightning", "transformers")
ENVIRONMENT = f"{SHARED}/frameworks"
HOST_PYTHON = f"{ENVIRONMENT}/bin/python"
INSTALL = "make frameworks"


def lacking() -> list[str]:
    """What the environment of the tests lacks: frameworks, and DeepSpeed's compiled operation for CPUs."""
    found = {name: _found(name) for name in FRAMEWORKS}
    absent = [name for name, package in found.items() if package is None]
    deepspeed = found["deepspeed"]
    if deepspeed is not None and not any("deepspeed_shm_comm_op" in file.name for file in deepspeed.files or ()):
        absent.append("deepspeed_shm_comm_op of deepspeed")
    return absent


def with_needs(names: Iterable[str]) -> dict[str, Distribution]:
    """The installed packages of these names and of all that they require here, by normalized name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [Requirement(name) for name in names]
    while left:
        wanted = left.pop()
        package = _found(wanted.name)
        if package is None:  # pip would have installed it if it were needed
            continue
        name = canonicalize_name(wanted.name)
        found[name] = package
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            requirements = [Requirement(line) for line in package.requires or ()]
            left += [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": extra})]
    return found


def stage(lab: Lab) -> None:
    """Make the environment on the shared directory of a lab, once."""
    if lab.on("h1", f"ls {ENVIRONMENT}.complete 2>/dev/null; true"):
        return
    here = "{}.{}".format(*sys.version_info)
    there = lab.on("h1", "python3 -c \"import sys; print('{}.{}'.format(*sys.version_info))\"")
    assert here == there, f"the packages are for Python {here}, and the hosts have {there}"
    site = Path(str(distribution("torch").locate_file("")))
    names = [
        str(file)
        for package in with_needs((*FRAMEWORKS, "torch", "numpy")).values()
        for file in package.files or ()
        if ".." not in file.parts and file.parts[:2] not in {("torch", "include"), ("torch", "test")}
    ]
    target = f"{ENVIRONMENT}/lib/python{there}/site-packages"
    script = f"python3 -m venv --without-pip {ENVIRONMENT} && tar -C {target} -xf - && touch {ENVIRONMENT}.complete"
    unpack = ["docker", "exec", "-i", f"ddp-play-{lab.name}-h1", "sh", "-c", script]
    pack = ["tar", "-C", str(site), "--mode=a+rX", "--owner=0", "--group=0", "--null", "-T", "-", "-cf", "-"]
    listed = "\0".join(names).encode()
    with subprocess.Popen(unpack, stdin=subprocess.PIPE) as unpacking:
        subprocess.run(pack, input=listed, stdout=unpacking.stdin, check=True, timeout=300)
        assert unpacking.stdin is not None
        unpacking.stdin.close()
    assert unpacking.returncode == 0


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(", ".join(absent) + " not installed" if (absent := lacking()) else 0)
