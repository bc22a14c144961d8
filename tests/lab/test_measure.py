"""The measuring verbs and parity of training on three real hosts with 2, 1 and 1 slots."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from .conftest import Lab
from .rank_jobs import PYTHON, ROOT, SLIM, document, fresh, train
from .test_matrix import MPI_ENV, mpi_on_hosts

__all__ = ["mpi_on_hosts"]
WITHOUT_MPI = {"PYTHONPATH": PYTHON, "OMP_NUM_THREADS": "1"}


def variables(env: dict[str, str]) -> str:
    """For -e: where the ranks find torch, and mpi4py or not."""
    return json.dumps({"ddp_job_image": SLIM, "ddp_job_env": env, "ddp_job_hosts": "all"})


VARIABLES = variables(WITHOUT_MPI)


def measured(lab: Lab, *words: str, given: str = VARIABLES, timeout_s: float = 240) -> dict[str, Any]:
    """The JSON answer of a measuring verb; it must succeed."""
    done = lab.play(*words, "-i", str(lab.inventory), "-e", given, "--json", timeout_s=timeout_s)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_every_collective_of_gloo_and_mpi_in_three_minutes(mpi_on_hosts: Lab) -> None:
    name = fresh("try")
    started = time.monotonic()
    gloo, mpi = measured(mpi_on_hosts, "collectives", "--name", name, given=variables(MPI_ENV))["runs"]
    assert time.monotonic() - started < 180
    assert (gloo["run"], gloo["backend"], gloo["device"]) == (f"{name}-gloo-cpu", "gloo", "cpu")
    assert (mpi["backend"], mpi["absent"]) == ("mpi", False)
    for run in (gloo, mpi):
        assert run["result"]["world_size"] == 4
        assert run["result"]["all_ranks_heard"]
        assert len(run["result"]["collectives"]) >= 24
    assert not_working(gloo) == set()
    assert not_working(mpi) == {"all_reduce avg", "all_reduce bf16", "monitored_barrier"}
    kept = (mpi_on_hosts.home / "runs" / gloo["run"] / "collectives.txt").read_text()
    (row,) = [line.split() for line in kept.splitlines() if line.startswith("all_reduce avg")]
    assert row[2:] == ["works", "yes", "refused*", "yes"], "for each backend what happened, and what torch's table says"


def not_working(run: dict[str, Any]) -> set[str]:
    """The collectives of a backend that say something else."""
    return {row["name"] for row in run["result"]["collectives"] if row["status"] != "works"}


def test_mpi_is_left_out_where_the_ranks_have_none(torch_on_hosts: Lab) -> None:
    _, mpi = measured(torch_on_hosts, "collectives", "--name", fresh("try"))["runs"]
    assert mpi["absent"], mpi


def test_bench_beside_plain_tcp(torch_on_hosts: Lab) -> None:
    sizes = ["--min-bytes", "1M", "--max-bytes", "16M"]
    (run,) = measured(torch_on_hosts, "bench", *sizes, "--seconds-per-size", "0.2", "--name", fresh("bench"))["runs"]
    wires = run["result"]["wires"]
    assert [(wire["source"], wire["target"]) for wire in wires] == [("h1", "h2"), ("h2", "h3"), ("h3", "h1")]
    (sweep,) = run["result"]["sweeps"]
    assert [row["bytes"] for row in sweep["rows"]] == [1 << 20, 4 << 20, 16 << 20]
    assert [row["wrong"] for row in sweep["rows"]] == [0, 0, 0]
    reach = run["reach"]
    assert reach["num_bytes"] == 16 << 20
    assert reach["wire_gb_s"] == min(wire["gb_s"] for wire in wires)
    assert reach["of_wire"] == pytest.approx(reach["busbw_gb_s"] / reach["wire_gb_s"])
    # everything that went over the network went over the planned interface, and that is more than one message
    for row in run["network"]["hosts"].values():
        assert row["carried"][row["planned"]]["tx"] > 16 << 20
    bundle = Path(run["bundle"])
    assert json.loads((bundle / "bench.json").read_text())["runs"] == [run]
    assert ElementTree.parse(bundle / "bench.svg").getroot().tag.endswith("svg")
    assert (bundle / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_a_share_that_is_not_reached_fails_the_check(torch_on_hosts: Lab) -> None:
    words = ["bench", "--min-bytes", "16M", "--max-bytes", "16M", "--seconds-per-size", "0.1", "--at-least", "50"]
    done = torch_on_hosts.play(*words, "-i", str(torch_on_hosts.inventory), "-e", VARIABLES)
    assert done.returncode == 1, done.stderr
    assert "of plain TCP, but --at-least requires 50" in done.stderr


def test_a_backend_that_does_not_fit_the_hosts(lab3: Lab) -> None:
    done = lab3.play("collectives", "--backend", "nccl", "-i", str(lab3.inventory), "-e", VARIABLES)
    assert done.returncode == 64, done.stderr
    assert "--backend nccl needs a GPU on every host; none usable on h1, h2, h3" in done.stderr


def weights(path: Path) -> torch.Tensor:
    """All parameters of the only checkpoint below a directory, as one vector."""
    (found,) = path.rglob("weights.pt")
    state = torch.load(found, map_location="cpu", weights_only=True)["model"]
    return torch.cat([state[name].flatten() for name in sorted(state)])


def test_ddp_and_manual_averaging_and_one_process_agree(torch_on_hosts: Lab, tmp_path: Path) -> None:
    """Four ranks on three hosts, averaged by DDP and by hand, beside one process on the global batch."""
    words = ["-m", "trainer", "train", "--max-steps", "20", "--keep", "1", "--batch-size", "50"]
    alone = [sys.executable, *words, "--checkpoint-dir", str(tmp_path / "alone")]
    subprocess.run(alone, cwd=ROOT, check=True, capture_output=True, timeout=120)
    expected = weights(tmp_path / "alone")
    for sync in ("ddp", "manual"):
        name = fresh(sync)
        job = train(tmp_path, command=["python3", *words, "--sync", sync])
        done = torch_on_hosts.play("run", job, "-i", str(torch_on_hosts.inventory), "--name", name)
        assert done.returncode == 0, done.stderr
        assert document(torch_on_hosts, name)["world_size"] == 4
        found = weights(torch_on_hosts.home / "runs" / name / "artifacts")
        assert float((found - expected).abs().max() / expected.abs().max()) <= 1e-5
