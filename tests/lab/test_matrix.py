"""Every way ranks can meet trains the same network, on three hosts with 2, 1 and 1 slots, in rank containers.

One of the hosts' own names resolves to 127.0.1.1, as Debian's installer leaves it: nothing may depend on it.
DDP_PLAY_WIDE=1 (`make matrix`) adds plain processes, c10d rendezvous and training to 96 %.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ddp_play.planning.plan_document import ranks_by_host

from .conftest import Lab
from .rank_jobs import PYTHON, ROOT, SHARED, fresh, job

WIDE = os.environ.get("DDP_PLAY_WIDE") == "1"
EPOCHS, LEAST = ("10", 0.96) if WIDE else ("3", 0.9)
MPI = f"{SHARED}/mpi"
MPI_ENV = {"PYTHONPATH": f"{PYTHON}:{MPI}", "MPI4PY_LIBMPI": f"{MPI}/lib/libmpi.so.12", "OMP_NUM_THREADS": "1"}
METHODS = {
    "env": {"init_method": "env"},
    "tcp": {"init_method": "tcp"},
    "file": {"init_method": "file"},
    "store": {"init_method": "store"},
    "file-store": {"init_method": "store", "store": "file"},
}
WAYS: dict[str, dict[str, Any]] = {f"ranks-{name}": values for name, values in METHODS.items()}
# a TCPStore of rank 0 is refused under torchrun, which keeps one of its own: tests/unit/planning/test_rendezvous.py
WAYS |= {f"torchrun-{name}": {**values, "launcher": "torchrun"} for name, values in METHODS.items() if name != "store"}
if WIDE:
    WAYS["torchrun-c10d"] = {"launcher": "torchrun", "rdzv": "c10d"}


@pytest.fixture(scope="session")
def mpi_on_hosts(torch_on_hosts: Lab, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """mpi4py and MPICH beside torch on the shared directory; the library comes from this environment's wheel."""
    target = tmp_path_factory.mktemp("mpi")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    install += ["--target", str(target), "--python-version", "3.11", "--only-binary=:all:"]
    subprocess.run([*install, "-c", str(ROOT / "constraints.txt"), "mpi4py"], check=True, timeout=300)
    (target / "lib").mkdir()
    shutil.copy(Path(sys.prefix, "lib", "libmpi.so.12"), target / "lib")
    shutil.copytree(Path(sys.prefix, "lib", "mpich"), target / "lib" / "mpich")
    pack_command = ["tar", "-C", str(target), "--mode=a+rX", "-cf", "-", "."]
    unpack = ["docker", "exec", "-i", f"ddp-play-{torch_on_hosts.name}-h1", "sh", "-c"]
    with subprocess.Popen(pack_command, stdout=subprocess.PIPE) as pack:
        script = f"mkdir -p {MPI} && tar -C {MPI} -xf -"
        subprocess.run([*unpack, script], stdin=pack.stdout, check=True, timeout=300)
    assert pack.returncode == 0
    return torch_on_hosts


@pytest.fixture(scope="module", autouse=True)
def a_name_on_loopback(lab3: Lab) -> Iterator[None]:
    """h2 resolves its own name to 127.0.1.1."""
    before = lab3.on("h2", "cat /etc/hosts")
    lab3.on("h2", "echo 127.0.1.1 h2 | sudo tee /etc/hosts")
    assert lab3.on("h2", "getent ahostsv4 h2").startswith("127.0.1.1")
    yield
    lab3.on("h2", f"echo '{before}' | sudo tee /etc/hosts")


def train(lab: Lab, tmp_path: Path, name: str, **variables: Any) -> dict[str, Any]:
    """Train and return rank 0's result; all ranks must agree."""
    command = ["python3", "-m", "trainer", "train", "--epochs", EPOCHS, "--checkpoint-dir", "none"]
    command += ["--backend", "{backend}", "--init-method", "{init_method}"]
    path = job(tmp_path, {"source": str(ROOT), "source_include": ["trainer"], "command": command, **variables})
    run = fresh(name)
    done = lab.play("run", path, "-i", str(lab.inventory), "--name", run, timeout_s=400)
    assert done.returncode == 0, done.stderr
    bundle = lab.home / "runs" / run
    results = [json.loads((bundle / "results" / f"rank-{rank}.json").read_text()) for rank in range(4)]
    assert {row["world_size"] for row in results} == {4}
    assert len({row["parameters_sha256"] for row in results}) == 1
    plan = json.loads((bundle / "plan.json").read_text())
    assert list(map(list, ranks_by_host(plan).values())) == [[0, 1], [2], [3]]
    return dict(results[0])


@pytest.fixture(scope="module")
def accuracies() -> dict[str, float]:
    """What each way reached: they must agree."""
    return {}


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("way", WAYS)
def test_gloo_trains_the_same_however_ranks_meet(
    torch_on_hosts: Lab,
    tmp_path: Path,
    way: str,
    accuracies: dict[str, float],
) -> None:
    result = train(torch_on_hosts, tmp_path, way, backend="gloo", **WAYS[way])
    accuracies[way] = result["accuracy"]
    assert result["accuracy"] >= LEAST
    assert len(set(accuracies.values())) == 1, accuracies


@pytest.mark.usefixtures("clean_hosts")
def test_mpi_trains_to_the_same_accuracy(mpi_on_hosts: Lab, tmp_path: Path, accuracies: dict[str, float]) -> None:
    result = train(mpi_on_hosts, tmp_path, "mpi", backend="mpi", env=MPI_ENV)
    assert result["accuracy"] >= LEAST
    for way, accuracy in accuracies.items():
        assert result["accuracy"] == pytest.approx(accuracy, abs=0.015), way


@pytest.mark.usefixtures("clean_hosts")
def test_every_collective_over_mpi(mpi_on_hosts: Lab, tmp_path: Path) -> None:
    command = ["python3", "-m", "trainer", "collectives", "--backend", "{backend}"]
    values = {"source": str(ROOT), "source_include": ["trainer"], "command": command}
    path = job(tmp_path, {**values, "backend": "mpi", "env": MPI_ENV})
    run = fresh("collectives-mpi")
    done = mpi_on_hosts.play("run", path, "-i", str(mpi_on_hosts.inventory), "--name", run, timeout_s=300)
    assert done.returncode == 0, done.stderr
    result = json.loads((mpi_on_hosts.home / "runs" / run / "results" / "rank-0.json").read_text())
    assert result["all_ranks_heard"]
    status = {row["name"]: row["status"] for row in result["collectives"]}
    assert {name for name, value in status.items() if value != "works"} == {
        "all_reduce avg",
        "all_reduce bf16",
        "monitored_barrier",
    }


KILLED = (
    "from mpi4py import MPI; import os; MPI.COMM_WORLD.barrier(); os.kill(os.getpid(), 9 * (os.environ['RANK'] == '2'))"
)


@pytest.mark.usefixtures("clean_hosts")
def test_mpi_ranks_that_are_killed_leave_no_shared_memory(mpi_on_hosts: Lab, tmp_path: Path) -> None:
    command = ["python3", "-c", KILLED + "; import time; time.sleep(600)"]
    path = job(tmp_path, {"backend": "mpi", "env": MPI_ENV, "command": command})
    done = mpi_on_hosts.play("run", path, "-i", str(mpi_on_hosts.inventory))
    assert done.returncode == 137, done.stderr
    assert "rank 2 on h2 failed first: signal 9 (SIGKILL)" in done.stderr


@pytest.mark.usefixtures("clean_hosts")
def test_mpi_without_mpi_in_the_image(torch_on_hosts: Lab, tmp_path: Path) -> None:
    path = job(tmp_path, {"command": ["python3", "-m", "trainer", "train"], "backend": "mpi"})
    done = torch_on_hosts.play("run", path, "-i", str(torch_on_hosts.inventory))
    assert done.returncode == 69, done.stderr
    assert "h1: no MPI for the ranks" in done.stderr
    assert "mpi4py" in done.stderr


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.skipif(not WIDE, reason="make matrix")
@pytest.mark.parametrize("launcher", ["ranks", "torchrun"])
def test_plain_processes_meet_too(torch_on_hosts: Lab, tmp_path: Path, launcher: str) -> None:
    result = train(torch_on_hosts, tmp_path, f"process-{launcher}", runtime="process", launcher=launcher)
    assert result["accuracy"] >= LEAST
