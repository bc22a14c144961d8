"""Where a fault row plays: three hosts with 2, 1 and 1 slots, as names on this machine or as hosts of a lab."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

HOSTS = ("h1", "h2", "h3")
SLOTS = {"h1": 2, "h2": 1, "h3": 1}
VICTIM = Path(__file__).with_name("victim.py")
CHATTER = Path(__file__).with_name("chatter.py")
COMMAND = Path(sys.executable).with_name("ddp-play")
SHARED = "/srv/ddp-play-shared"


class Stage(Protocol):
    """Three hosts, and a way to look at them that does not go through what is being tested."""

    name: str
    home: Path
    inventory: Path
    run_options: tuple[str, ...]  # of `ddp-play run`, besides those of the row
    shared: str  # the directory that all hosts share, where a row has one
    also_left: str  # further lines of a script that lists what is left of the run $run; all hosts share it

    def environment(self) -> dict[str, str]:
        """What `ddp-play` sees."""
        ...

    def on(self, host: str, script: str) -> str:
        """Output of a shell script on a host, as root where there is one."""
        ...

    def host_dir(self, host: str) -> str:
        """Where the program on the host keeps its things."""
        ...

    def job(self, variables: dict[str, Any], *, containers: bool) -> dict[str, Any]:
        """The job's variables with what this place needs."""
        ...


@dataclass
class Here:
    """Three names for this machine, reached without SSH: no engine, no root, quick."""

    root: Path
    name: str = "here"
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.shared = self.root / "home", str(self.root / "shared")
        self.home.mkdir(exist_ok=True)
        self.inventory = self.root / "hosts.json"
        self.run_options: tuple[str, ...] = ("-i", str(self.inventory))
        self.also_left = ""
        self.write_inventory()

    def write_inventory(self, **variables: Any) -> None:
        """The three hosts, with these variables besides."""
        hosts = {name: {**self.variables(name), "ansible_connection": "local", **variables} for name in HOSTS}
        self.inventory.write_text(json.dumps({"ranks": {"hosts": hosts}}))

    def variables(self, host: str) -> dict[str, Any]:
        """What the inventory says about a host, however it is reached."""
        python = {"ansible_python_interpreter": self.interpreter(host), "ddp_python": sys.executable}
        return {"ddp_slots": SLOTS[host], **python}

    def interpreter(self, host: str) -> str:
        """The Python that the controller starts there."""
        return sys.executable

    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
            "HOME": str(self.root),
            "LANG": "C.UTF-8",
            "COLUMNS": "160",
            "DDP_PLAY_HOME": str(self.home),
            "DDP_PLAY_REPORT": "no",
            "DDP_PLAY_HOST_DIR": str(self.root / "host"),
            **self.extra,
        }

    def on(self, host: str, script: str) -> str:
        return output_of(["sh", "-c", script])

    def host_dir(self, host: str) -> str:
        return str(self.root / "host")

    def job(self, variables: dict[str, Any], *, containers: bool) -> dict[str, Any]:
        assert not containers, "no engine here"
        return variables


@dataclass
class OnLab:
    """Three hosts of a lab: real SSH, real engines."""

    lab: Lab
    root: Path
    name: str = "lab"
    extra: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home, self.shared = self.lab.home, SHARED
        self.inventory = self.lab.inventory
        self.run_options: tuple[str, ...] = ("-i", str(self.inventory))
        self.also_left = ""

    def environment(self) -> dict[str, str]:
        return {**self.lab.environment, "COLUMNS": "160", **self.extra}

    def on(self, host: str, script: str) -> str:
        return output_of(["docker", "exec", f"ddp-play-{self.lab.name}-{host}", "sh", "-c", script])

    def host_dir(self, host: str) -> str:
        return "/home/ops/.local/state/ddp-play/host"

    def job(self, variables: dict[str, Any], *, containers: bool) -> dict[str, Any]:
        env = {"PYTHONPATH": f"{SHARED}/python", **variables.get("env", {})}
        image = {"image": "ddp-play-rank:slim"} if containers else {"runtime": "process"}
        return {**variables, **image, "env": env}

    def power_off(self, host: str) -> None:
        """Nothing of the host runs any more, at once."""
        output_of(["docker", "kill", f"ddp-play-{self.lab.name}-{host}"])

    def power_on(self, host: str) -> None:
        """It boots; whether it is up is for whoever waits."""
        output_of(["docker", "start", f"ddp-play-{self.lab.name}-{host}"])


def output_of(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{words[-1]}: {done.stderr}"
    return done.stdout.strip()
