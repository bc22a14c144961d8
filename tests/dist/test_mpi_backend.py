"""The MPI backend with two real processes under mpiexec, inside the trainer and copied next to another script."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.dist

ROOT = Path(__file__).parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")  # of the package mpich
# mpiexec tells a rank its number as PMI_RANK
WRAPPER = 'export RANK=$PMI_RANK WORLD_SIZE=2; exec "$@"'
SCRIPT = """
import mpi_backend, torch, torch.distributed as dist
dist.init_process_group(mpi_backend.NAME, **mpi_backend.world())
rank, tensor = dist.get_rank(), torch.full((2, 3), float(dist.get_rank() + 1))
dist.all_reduce(tensor)
group = dist.new_group([1])
if rank == 1:
    alone = torch.ones(4)
    dist.all_reduce(alone, group=group)
    assert alone.tolist() == [1.0] * 4
try:
    dist.all_reduce(torch.ones(1, dtype=torch.float16))
except RuntimeError as error:
    print(f"refused: {error}")
dist.barrier()
print(f"rank {rank} of {dist.get_world_size()}: {tensor.unique().tolist()}\\n", end="")
dist.destroy_process_group()
"""


def mpiexec(directory: Path, *arguments: str, **extra: str) -> str:
    """stdout of two ranks of `python ARGUMENTS`, which must succeed."""
    assert MPIEXEC.exists(), f"{MPIEXEC} is missing: pip install mpich"
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    environment = {**kept, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "OMP_NUM_THREADS": "1", **extra}
    argv = [str(MPIEXEC), "-n", "2", "sh", "-c", WRAPPER, "rank", sys.executable, *arguments]
    done = subprocess.run(
        argv, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_collectives_over_mpi(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    words = ("-m", "trainer", "collectives", "--backend", "mpi", "--timeout", "60", "--case-timeout", "5")
    mpiexec(tmp_path, *words, "--result", str(result), PYTHONPATH=str(ROOT))
    found = {row["name"]: row["status"] for row in json.loads(result.read_text())["collectives"]}
    assert {name: status for name, status in found.items() if status != "works"} == {
        "all_reduce avg": "refused",
        "all_reduce bf16": "refused",
        "monitored_barrier": "not run",
    }


def test_a_copy_of_the_package_serves_another_script(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "trainer" / "mpi_backend", tmp_path / "mpi_backend")
    (tmp_path / "script.py").write_text(SCRIPT)
    lines = mpiexec(tmp_path, "script.py").splitlines()
    assert sorted(lines) == [
        "rank 0 of 2: [3.0]",
        "rank 1 of 2: [3.0]",
        *["refused: MPI cannot reduce torch.float16"] * 2,
    ]
