"""Other launchers of the same payload on the same hosts, without containers: torchrunx, and DeepSpeed over pdsh.

They need Python packages at the same path on every host. pip installs the packages on the controller, and they are
copied to the shared directory.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from contenders import SHARED, TORCH_ENV, Bench, Timing, run_command

if TYPE_CHECKING:
    from collections.abc import Callable

PINS = {"torchrunx": "torchrunx==0.4.0", "deepspeed": "deepspeed==0.19.8"}
# Python on the hosts; both launchers use the path of the controller's Python there.
PYTHON = "/usr/bin/python3"
HERE = Path(__file__).resolve().parent
FIRST_PORT = 21_000


class UnavailableError(Exception):
    """A launcher cannot run on this machine; the text says why."""


@dataclass(frozen=True)
class Rival:
    """One launcher; its packages are in `packages` on the controller and in TORCH_ENV on the hosts."""

    name: str
    packages: Path

    def run(self, bench: Bench, attempt: int) -> Timing:
        """Launch once and measure the time to the end of the payload and to the exit."""
        return LAUNCHES[self.name](self, bench, attempt)

    def environment(self) -> dict[str, str]:
        """Environment on controller and hosts; Python skips the paths that do not exist on the machine."""
        return {"PYTHONPATH": f"{self.packages}:{TORCH_ENV}:{HERE.parent}:{SHARED}/bench", "OMP_NUM_THREADS": "1"}


def wheels_of(names: list[str], scratch: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Wheel of each launcher that can run on this machine, and the reasons why others cannot."""
    ready, refused = {}, {}
    for name in names:
        try:
            _require(name)
            ready[name] = _wheel(PINS[name], scratch / name)
        except UnavailableError as error:
            refused[name] = str(error)
    return ready, refused


def _require(name: str) -> None:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    try:
        there = subprocess.run([PYTHON, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    except (OSError, subprocess.CalledProcessError):
        raise UnavailableError(f"{PYTHON} does not exist on this machine, but on the hosts") from None
    if not there.startswith(f"{here}."):
        raise UnavailableError(f"{PYTHON} is Python {there}, but the packages are for Python {here}")
    if name == "deepspeed" and not shutil.which("pdsh"):
        raise UnavailableError("pdsh is not installed (apt-get install pdsh)")


def _wheel(pin: str, directory: Path) -> Path:
    # The setup script of DeepSpeed imports torch, so it needs the environment of this Python.
    argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    done = subprocess.run([*argv, "--wheel-dir", str(directory), pin], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UnavailableError(f"pip cannot build a wheel of {pin}: {done.stderr.strip().splitlines()[-1]}")
    return next(directory.glob("*.whl"))


def _torchrunx(rival: Rival, bench: Bench, attempt: int) -> Timing:
    del attempt  # torchrunx chooses free ports itself
    config = _ssh_config(bench)
    argv = [PYTHON, str(HERE / "torchrunx_launch.py"), str(config), bench.payload, *_addresses(bench)]
    return run_command(argv, bench, rival.environment(), cwd="/")


def _deepspeed(rival: Rival, bench: Bench, attempt: int) -> Timing:
    addresses = _addresses(bench)
    hostfile = bench.home / "hostfile"
    hostfile.write_text("".join(f"{address} slots=1\n" for address in addresses))
    argv = [PYTHON, "-m", "deepspeed.launcher.runner", "--hostfile", str(hostfile), "--launcher", "pdsh"]
    argv += ["--no_ssh_check", "--no_local_rank", "--force_multi", "--master_addr", addresses[0]]
    argv += ["--master_port", str(FIRST_PORT + attempt), f"{SHARED}/bench/payload.py", bench.payload]
    environment = {**rival.environment(), "PDSH_SSH_ARGS": f"-F {_ssh_config(bench)} %h", "DS_ACCELERATOR": "cpu"}
    return run_command(argv, bench, environment, cwd="/")


LAUNCHES: dict[str, Callable[[Rival, Bench, int], Timing]] = {"torchrunx": _torchrunx, "deepspeed": _deepspeed}


def _ranks(bench: Bench) -> dict[str, dict[str, str]]:
    return dict(yaml.safe_load(Path(bench.inventory).read_text())["all"]["children"]["ranks"])


def _addresses(bench: Bench) -> list[str]:
    hosts = _ranks(bench)["hosts"].values()
    return [row["ansible_host"] for row in hosts]


def _ssh_config(bench: Bench) -> Path:
    """Write the connection variables of the inventory as an OpenSSH configuration; returns its path."""
    variables = _ranks(bench)["vars"]
    path = bench.home / "ssh_config"
    path.write_text(
        f"Host *\n  User {variables['ansible_user']}\n  IdentityFile {variables['ansible_ssh_private_key_file']}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {Path(bench.inventory).parent.parent / 'known_hosts'}\n"
        "  LogLevel ERROR\n"
    )
    return path
