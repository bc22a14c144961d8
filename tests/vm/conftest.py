"""Three virtual machines per session: `make vm`. They take more than an hour, so nobody gets them by accident.

DDP_PLAY_REQUIRE_VM=1 asks for them and makes their absence a failure. DDP_PLAY_KEEP_VM=1 asks for them, leaves them
running, and the next session uses them again, so that one test can be tried alone; `python -m tests.vm down` ends them.
The disk image stays in the cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .image import ensure_image
from .machines import Cluster, load, start
from .needs import missing
from .places import cache
from .site import write_inventory

BIN = Path(sys.executable).parent
TIMES: dict[str, float] = {}
# An emulated sshd on a busy machine takes longer than Ansible's ten seconds to greet.
PATIENCE = {"ANSIBLE_TIMEOUT": "120"}


@dataclass(frozen=True)
class Site:
    """The machines, their inventory, and the commands that work on it."""

    cluster: Cluster
    inventory: Path
    home: Path

    def play(self, *words: str, timeout_s: float = 3000) -> subprocess.CompletedProcess[str]:
        """`ddp-play WORDS... -i INVENTORY` to its end."""
        return self._run([str(BIN / "ddp-play"), *words, "-i", str(self.inventory)], timeout_s)

    @contextmanager
    def begin(self, *words: str) -> Iterator[subprocess.Popen[bytes]]:
        """`ddp-play WORDS... -i INVENTORY` in the background; killed at the end of the block if it still runs."""
        argv = [str(BIN / "ddp-play"), *words, "-i", str(self.inventory)]
        child = subprocess.Popen(argv, env=self._environment(), stdin=subprocess.DEVNULL)
        try:
            yield child
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()

    def ansible_playbook(self, *words: str, timeout_s: float = 3000) -> subprocess.CompletedProcess[str]:
        """`ansible-playbook -i INVENTORY WORDS...` to its end."""
        return self._run([str(BIN / "ansible-playbook"), "-i", str(self.inventory), *words], timeout_s)

    def table(self, *words: str) -> tuple[int, dict[tuple[str, str], dict[str, Any]]]:
        """A provisioning verb with --json: its exit code, and (host, role) -> cell."""
        done = self.play(*words, "--json")
        assert done.stdout, done.stderr
        return done.returncode, {(cell["host"], cell["role"]): cell for cell in json.loads(done.stdout)["cells"]}

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **PATIENCE, "DDP_PLAY_HOME": str(self.home), "PATH": f"{BIN}:{os.environ['PATH']}"}

    def _run(self, argv: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in here needs machines, and time."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.vm)
            item.add_marker(pytest.mark.timeout(3600))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Where the time went."""
    if TIMES:
        terminalreporter.section("seconds")
        for what, seconds in TIMES.items():
            terminalreporter.write_line(f"{seconds:8.1f}  {what}")


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Write down how long it takes."""
    started = time.monotonic()
    try:
        yield
    finally:
        TIMES[what] = time.monotonic() - started


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """All machines, booted; those of an earlier session where they were kept."""
    required, kept = (os.environ.get(f"DDP_PLAY_{word}_VM") == "1" for word in ("REQUIRE", "KEEP"))
    if not required and not kept:
        pytest.skip("virtual machines take more than an hour: make vm")
    if reason := missing():
        (pytest.fail if required else pytest.skip)(f"no virtual machines: {reason}")
    directory = cache() / "cluster"
    found = load(directory)
    if found is not None and not kept:
        found.end()
        found = None
    if found is None:
        with timed("disk image (from the cache where it is there)"):
            image = ensure_image(cache())
        found = start(image, directory)
    try:
        with timed("boot of all machines"):
            found.await_boot()
        yield found
    finally:
        if not kept:
            found.end()


@pytest.fixture(scope="session")
def site(cluster: Cluster) -> Site:
    """The cluster as a site sees it."""
    return Site(cluster, write_inventory(cluster), cluster.directory / "home")
