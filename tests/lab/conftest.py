"""Labs of the tests' own: real hosts as containers, made once per session and torn down.

Where no engine answers, these tests are skipped with the reason; DDP_PLAY_REQUIRE_LAB=1 makes that a failure.
DDP_PLAY_KEEP_LAB=1 leaves labs up for a look inside; with DDP_PLAY_LAB_HOME=DIR their state is there, their names begin
with the directory's, and the next session uses them again. Names carry the process id otherwise, so two sessions
never meet.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import DdpPlayError
from ddp_play.lab.docker_client import connect
from tests.lab.rank_jobs import PYTHON, ROOT, SHARED, SLIM
from tests.required import skip_or_fail
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

COMMAND = str(Path(sys.executable).with_name("ddp-play"))


@contextmanager
def build_turn() -> Iterator[None]:
    """Wait until no other worker builds images: the second one then finds them in the engine's cache."""
    with (Path(tempfile.gettempdir()) / "ddp-play-tests-build.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Lab:
    """A running lab and the command that drives it."""

    name: str
    home: Path

    @property
    def inventory(self) -> Path:
        """The inventory `lab up` wrote."""
        return self.home / "lab" / self.name / "inventory" / "hosts.yml"

    @property
    def environment(self) -> dict[str, str]:
        """The caller's environment with the state directory of the tests."""
        return {**os.environ, "DDP_PLAY_HOME": str(self.home)}

    def play(
        self, *words: str, timeout_s: float = 240, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `ddp-play WORDS...` to its end."""
        return subprocess.run(
            [COMMAND, *words],
            env=environment or self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def up(self, *options: str) -> subprocess.CompletedProcess[str]:
        """`lab up` of this lab; it must succeed."""
        with build_turn():
            done = self.play("lab", "up", "--name", self.name, *options, timeout_s=600)
        assert done.returncode == 0, done.stderr
        return done

    def build_slim_image(self) -> None:
        """The rank image without torch, in the engine of this machine."""
        with build_turn():
            done = self.play("image", "build", "--slim", "--tag", SLIM, timeout_s=900)
        assert done.returncode == 0, done.stderr

    def down(self) -> subprocess.CompletedProcess[str]:
        """`lab down` of this lab."""
        return self.play("lab", "down", "--name", self.name)

    def status(self) -> dict[str, Any]:
        """`lab status --json`."""
        return dict(json.loads(self.play("lab", "status", "--name", self.name, "--json").stdout))

    def on(self, host: str, command: str, *, user: str = "ops") -> str:
        """The output of a command on a host; it must succeed."""
        done = self.play("lab", "ssh", "--name", self.name, "--user", user, host, command)
        assert done.returncode == 0, f"{host}: {command}: {done.stderr}"
        return done.stdout.strip()

    def put(self, host: str, source: Path, target: str) -> None:
        """Copy a file or folder into a folder of a host."""
        container = f"ddp-play-{self.name}-{host}"
        subprocess.run(["docker", "cp", str(source), f"{container}:{target}"], check=True, capture_output=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in here needs a lab."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.lab)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(900))


def engine_or_skip() -> None:
    """Skip (or fail, where CI says so) without a usable engine and the tools to reach hosts."""
    reason = "" if shutil.which("ssh") else "ssh is not installed"
    try:
        connect().close()
    except DdpPlayError as error:
        reason = error.message
    if reason:
        skip_or_fail("LAB", f"no lab: {reason}")


@pytest.fixture(scope="session")
def lab_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State of all labs of this session."""
    engine_or_skip()
    if kept := os.environ.get("DDP_PLAY_LAB_HOME"):
        return Path(kept)
    return tmp_path_factory.mktemp("lab-home")


@pytest.fixture(scope="session")
def lab3(lab_home: Path) -> Iterator[Lab]:
    """Three hosts with 2, 1 and 1 slots, an engine and the slim rank image each."""
    kept = os.environ.get("DDP_PLAY_LAB_HOME")
    lab = Lab(Path(kept).name if kept else f"test-{os.getpid()}", lab_home)
    try:
        lab.up("--hosts", "3", "--slots", "2,1,1")
        lab.build_slim_image()
        loaded = lab.play("image", "load", "-i", str(lab.inventory), "--image", SLIM, timeout_s=300)
        assert loaded.returncode == 0, loaded.stderr
        yield lab
    finally:
        if os.environ.get("DDP_PLAY_KEEP_LAB") != "1":
            lab.down()


@pytest.fixture(scope="session")
def torch_on_hosts(lab3: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """torch for the hosts' Python, once a lab, on the directory all hosts share: the way big sites do it."""
    if lab3.on("h1", f"ls {PYTHON}.complete 2>/dev/null; true"):
        return lab3
    target = tmp_path_factory.mktemp("python")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    install += ["--target", str(target), "--python-version", "3.11", "--only-binary=:all:"]
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), "torch", "numpy"], check=True, timeout=600)
    pack_command = ["tar", "-C", str(target), "--exclude=torch/include", "--exclude=torch/test"]
    pack_command += ["--mode=a+rX", "-cf", "-", "."]
    unpack = ["docker", "exec", "-i", f"ddp-play-{lab3.name}-h1", "sh", "-c"]
    script = f"mkdir -p {PYTHON} && tar -C {PYTHON} -xf - && touch {PYTHON}.complete"
    with subprocess.Popen(pack_command, stdout=subprocess.PIPE) as pack:
        subprocess.run([*unpack, script], stdin=pack.stdout, check=True, timeout=300)
    assert pack.returncode == 0
    return lab3


@pytest.fixture
def clean_hosts(lab3: Lab) -> Iterator[None]:
    """Whatever the test did, nothing of ours may be left on any host."""
    yield
    places = f"/var/lib/ddp-play/runs /home/ops/.local/state/ddp-play/host/runs {SHARED}/.ddp-play /dev/shm"
    script = (
        "docker ps -aq --filter label=ddp-play.run; pgrep -f 'guard-[0-9a-f]+-[^ ]+[.]pyc'; "
        f"sudo find {places} -mindepth 1 2>/dev/null; true"
    )
    left: dict[str, str] = {}

    def is_clean() -> bool:
        left.update((host, lab3.on(host, script)) for host in ("h1", "h2", "h3"))
        return not any(left.values())

    try:
        wait_until(is_clean, timeout_s=45)
    except AssertionError as error:
        raise AssertionError(f"left on the hosts: {left}") from error


def bare_lab(lab_home: Path, name: str, num_hosts: int) -> AbstractContextManager[Lab]:
    """A lab of hosts without an engine, for the tests of one module."""
    return lab_of(lab_home, name, "--hosts", str(num_hosts), "--no-docker")


@contextmanager
def lab_of(lab_home: Path, name: str, *options: str) -> Iterator[Lab]:
    """A lab for the tests of one module, brought up with these options of `lab up`."""
    kept = os.environ.get("DDP_PLAY_LAB_HOME")
    lab = Lab(f"{Path(kept).name}-{name}" if kept else f"{name}-{os.getpid()}", lab_home)
    try:
        lab.up(*options)
        yield lab
    finally:
        if os.environ.get("DDP_PLAY_KEEP_LAB") != "1":
            lab.down()


@pytest.fixture(scope="session")
def check_lab(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine, for the tests of `ddp-play check`."""
    with bare_lab(lab_home, "check", 3) as lab:
        yield lab


@pytest.fixture
def other_lab(lab_home: Path) -> Iterator[Lab]:
    """A name for a lab that the test itself brings up; it is gone afterwards."""
    lab = Lab(f"test-{os.getpid()}-other", lab_home)
    yield lab
    lab.down()
