"""`make engine`: a Docker engine for the lab tests, installed by the project's own role where there is none.

What killed tests have left goes first: pid files that keep the daemon from starting, and hosts of labs.

Says plainly what it does. Where it may not (no root, or no Debian family), it says so and the lab part is skipped;
with DDP_PLAY_REQUIRE_LAB=1, as in CI, that is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from ddp_play.lab.docker_client import connect
from ddp_play.lab.layout import LABEL, LABEL_STATE
from tests.needs import install as install_packages
from tests.needs import may_install as may_install_packages

START_S = 60.0
LOG = Path("/tmp/ddp-play-dockerd.log")
LOG_LINES = 15
RUN_DIR = Path("/var/run")
DAEMONS = {"docker.pid": "dockerd", "docker/containerd/containerd.pid": "containerd"}


def answers() -> bool:
    """Does an engine answer?"""
    if not shutil.which("docker"):
        return False
    done = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, check=False)
    return done.returncode == 0 and bool(done.stdout.strip())


def may_install() -> str:
    """Empty when we may install an engine, else why not."""
    if os.geteuid() != 0:
        return "no Docker engine answers, and only root could install one"
    if not may_install_packages(0):
        return "no Docker engine answers, and this is neither Debian nor Ubuntu"
    return ""


def remove_stale_pid_files(run_dir: Path, proc: Path = Path("/proc")) -> None:
    """Remove the pid files of daemons that ended without doing so, whose pid may be another process's or thread's now.

    With such a file dockerd takes itself, or its containerd, for running, and does not start.
    """
    for name, daemon in DAEMONS.items():
        try:
            comm = (proc / (run_dir / name).read_text().strip() / "comm").read_text().strip()
        except OSError:
            comm = ""
        if comm != daemon:
            (run_dir / name).unlink(missing_ok=True)


def log_end() -> str:
    """Return the last lines of the daemon's log, empty where we started none."""
    if not LOG.exists():
        return ""
    return "".join(f"    {line}\n" for line in LOG.read_text(errors="replace").splitlines()[-LOG_LINES:])


def is_abandoned(state: Path, proc: Path = Path("/proc")) -> bool:
    """Whether a lab's state is in the temporary directory of a pytest that has ended.

    pytest has its pid in a file there while it runs.
    """
    folders = [path for path in state.parents if path.parent.name.startswith("pytest-of-")]
    try:
        return bool(folders) and b"pytest" not in (proc / (folders[0] / ".lock").read_text() / "cmdline").read_bytes()
    except OSError:
        return True


def remove_abandoned_labs() -> None:
    """Remove the labs of killed tests: an engine brings them back when it starts, and their hosts take the CPU."""
    client = connect()
    hosts = client.containers.list(all=True, filters={"label": LABEL})
    client.close()
    states = {host.labels[LABEL]: Path(host.labels.get(LABEL_STATE, "")) for host in hosts}
    for name, state in sorted(states.items()):
        if is_abandoned(state):
            print(f"==> removing lab {name}, which killed tests have left", flush=True)
            with TemporaryDirectory() as home:
                command = [sys.executable, "-m", "ddp_play", "lab", "down", "--force", "--name", name]
                subprocess.run(command, env={**os.environ, "DDP_PLAY_HOME": home}, check=True)


def install() -> None:
    """By the project's own role where systemd runs; the same package and a daemon of our own elsewhere."""
    if Path("/run/systemd/system").is_dir():
        playbook = Path(sys.executable).with_name("ansible-playbook")
        extra = ["-e", "docker_engine_source=distribution", "-e", "ansible_connection=local"]
        subprocess.run([playbook, "-i", "localhost,", "tests/engine.yml", *extra], check=True)
        return
    if not shutil.which("dockerd"):
        install_packages(["docker.io"])
    remove_stale_pid_files(RUN_DIR)
    with LOG.open("ab") as log:
        subprocess.Popen(["dockerd"], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start() -> str:
    """Install and start an engine; empty when it answers, else why none does."""
    if reason := may_install():
        return reason
    install()
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if answers():
            return ""
        time.sleep(0.5)
    return f"the engine did not start within {START_S:.0f} s: see {LOG}\n{log_end()}".rstrip()


def main() -> int:
    """Exit 0 when an engine answers, or when its absence is allowed."""
    reason = "" if answers() else start()
    if not reason:
        remove_abandoned_labs()
        return 0
    sys.stdout.write(f"==> {reason}\n")
    return 1 if os.environ.get("DDP_PLAY_REQUIRE_LAB") == "1" else 0


if __name__ == "__main__":
    raise SystemExit(main())
