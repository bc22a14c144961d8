"""Outputs of diagnostic programs as they are, for the ticket of `ddp-play check --bundle`. All of them only read."""

from __future__ import annotations

import glob
import os
import subprocess
from typing import Any, Callable, Dict, List, Tuple

from .bounded_reading import NotReadableHere, Reading
from .programs import which

OUTPUT_S = 12.0
MOST_INTERFACES = 4
# Of a host: all outputs together are below what the controller takes, also where each byte becomes an escape of JSON.
MOST_BYTES = 160 << 10
# Addresses of other hosts, routes and connections are not for a vendor; nor are command lines of processes.
COMMANDS: Tuple[Tuple[str, ...], ...] = (
    ("uname", "-srvm"),
    ("lscpu",),
    ("nvidia-smi", "-q"),
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "nvlink", "--status"),
    ("nvidia-smi", "nvlink", "--errorcounters"),
    ("ibstat",),
    ("ibv_devinfo", "-v"),
    ("ip", "-statistics", "-statistics", "link"),
)
OF_AN_INTERFACE: Tuple[Tuple[str, ...], ...] = (("ethtool",), ("ethtool", "-i"), ("ethtool", "-S"), ("ethtool", "-m"))


def wanted(root: str = "") -> Dict[str, Reading]:
    """Readings by command line."""
    commands = [*COMMANDS]
    for path in sorted(glob.glob(root + "/sys/class/net/*/device"))[:MOST_INTERFACES]:
        commands += [(*words, os.path.basename(os.path.dirname(path))) for words in OF_AN_INTERFACE]
    most = MOST_BYTES // len(commands)
    return {" ".join(words): (_reader(words, most), OUTPUT_S) for words in commands}


def _reader(words: Tuple[str, ...], most: int) -> Callable[[], Dict[str, Any]]:
    return lambda: output(list(words), most)


def output(words: List[str], most: int) -> Dict[str, Any]:
    """Exit code and output of a command, of which the first bytes are kept."""
    path = which(words[0])
    if path is None:
        raise NotReadableHere("no program %s" % words[0])
    done = subprocess.run(
        [path, *words[1:]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "LC_ALL": "C"}, check=False,
    )  # fmt: skip
    text = done.stdout[:most].decode("utf-8", "replace")
    return {"exit_code": done.returncode, "output": text, "left_out_bytes": max(0, len(done.stdout) - most)}
