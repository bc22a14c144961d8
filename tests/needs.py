"""`make needs`: the programs that tests start beside Python, installed where this user may, named elsewhere.

Root installs them on Debian and Ubuntu. Elsewhere the tests that lack one are skipped, and this says which command
helps.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

# Program -> Debian packages.
PROGRAMS = {
    "ssh": "openssh-client",
    "sshd": "openssh-server",
    "ip": "iproute2",
    "gpg": "gnupg",
    "gpg-agent": "gpg-agent",  # some machines have gpg alone
    "cc": "gcc libc6-dev",
    "tcsh": "tcsh",
    "fish": "fish",
    "sudo": "sudo",
    "debootstrap": "debootstrap",
    "tmux": "tmux",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
}
# Programs without a package in a release of Debian: installed by hand, else their tests are skipped.
BY_HAND = {
    "apptainer": "Debian sid, EPEL and the project's own packages have it; DDP_PLAY_REQUIRE_APPTAINER=1 requires it",
    "enroot": "with pyxis (DDP_PLAY_PYXIS), from github.com/NVIDIA; DDP_PLAY_REQUIRE_PYXIS=1 requires both",
}
# Debian keeps what only root runs in sbin.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def missing_packages(path: str = SEARCH_PATH) -> list[str]:
    """Debian packages of the programs that are in no directory of `path`."""
    missing = (packages for program, packages in PROGRAMS.items() if not shutil.which(program, path=path))
    return [package for packages in missing for package in packages.split()]


def named_by_hand(path: str = SEARCH_PATH) -> list[str]:
    """A line for each program that is missing and that nothing here installs."""
    missing = {name: where for name, where in BY_HAND.items() if not shutil.which(name, path=path)}
    return [f"tests that need {name} are skipped: {where}" for name, where in missing.items()]


def may_install(uid: int, marker: Path = Path("/etc/debian_version")) -> bool:
    """May this user install Debian packages here?"""
    return uid == 0 and marker.exists()


def install(packages: list[str]) -> None:
    """Install packages, in silence unless it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=environment)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> int:
    """Install what is missing, or name it; exit 0 in both cases."""
    for line in named_by_hand():
        sys.stdout.write(f"==> {line}\n")
        sys.stdout.flush()
    packages = missing_packages()
    if not packages:
        return 0
    if may_install(os.geteuid()):
        sys.stdout.write(f"==> installing {' '.join(packages)}\n")
        sys.stdout.flush()
        install(packages)
    else:
        sys.stdout.write(
            f"==> tests that need one of these packages are skipped: {' '.join(packages)}\n"
            f"    on Debian and Ubuntu: sudo apt-get install {' '.join(packages)}\n"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
