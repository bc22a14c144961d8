"""Whole runs with ranks as processes on a GPU: NCCL, samples, failures of CUDA, hangs, stops."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.samples import read_samples
from ddp_play.guard import gpus
from ddp_play.guard.kernel_log import in_first_pid_namespace
from tests.gpu.processes import RANK, busy, users
from tests.run.conftest import LOCAL, ROOT, Done, Play
from tests.waiting import wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.runner]


def job(play: Play, *command: str, **variables: Any) -> Path:
    """A job of one rank on GPU 0 that does this of rank.py."""
    values = {"command": [sys.executable, str(RANK), *command], "backend": "nccl", "ranks_per_host": 1, **variables}
    return play.job(values)


def run(play: Play, *command: str, name: str = "night", **variables: Any) -> Done:
    return play("run", job(play, *command, **variables), "-i", LOCAL, "--name", name, timeout_s=180)


def verdict(play: Play) -> dict[str, Any]:
    found: dict[str, Any] = play.document()["verdict"]
    return found


def test_the_trainer_over_nccl(play: Play) -> None:
    command = ["python", "-m", "trainer", "train", "--bf16"]
    made = play.job({"command": command, "source": str(ROOT), "source_include": ["trainer"], "ranks_per_host": 1})
    done = play("run", made, "-i", LOCAL, "--name", "night", "--json", timeout_s=180)
    assert done.code == 0, done.err
    told = json.loads(RunPaths(play.newest()).result(0).read_text())
    assert (told["backend"], told["device"]) == ("nccl", "cuda:0")
    assert told["accuracy"] >= 0.97
    assert play.document()["nccl"]["complete"]
    assert play.left_on_host() == []


def test_samples_and_usage_of_a_busy_gpu(play: Play) -> None:
    done = run(play, "busy", "12", samples=0.5)
    assert done.code == 0, done.err
    found = read_samples(RunPaths(play.newest()).samples("localhost"))
    rows = [row["gpus"]["0"] for row in found.rows if "gpus" in row]
    middle = rows[len(rows) // 4 : -1]
    assert min(row["utilization"] for row in middle) >= 80
    assert min(row["memory"] for row in middle) >= 4 << 30
    assert max(row["power"] for row in middle) <= 1.1 * found.header["gpus"]["0"]["power_limit"]
    usage = play("usage", "-i", LOCAL, "--by", "run", "--json")
    (row,) = [row for row in usage.json["groups"] if row["name"].startswith("night")]
    assert row["gpu_busy"] >= 0.8


@pytest.mark.parametrize(
    ("what", "error", "hint"),
    [
        ("too_much", "CUDA out of memory", "the memory of its GPU is full"),
        ("out_of_range", "device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"),
    ],
)
def test_a_failure_of_cuda_is_the_verdict(play: Play, what: str, error: str, hint: str) -> None:
    done = run(play, what)
    assert done.code == 1
    assert error in verdict(play)["error"]
    assert hint in verdict(play)["hint"]
    assert hint in done.err


@pytest.mark.skipif(not in_first_pid_namespace(), reason="this container's pids are not those of the kernel log")
def test_the_kernels_line_about_the_rank_is_in_the_verdict_and_fails_no_host(play: Play) -> None:
    assert run(play, "out_of_range").code == 1
    assert any("Xid" in line for line in verdict(play)["kernel"]), verdict(play)
    checked = play("check", "-i", LOCAL, "--json").json
    (row,) = [row for row in checked["findings"] if row["check"] == "kernel log"]
    assert row["result"] == "warn", row


def test_two_ranks_on_one_gpu(play: Play) -> None:
    refused = run(play, "same_gpu", ranks_per_host=len(gpus.gpus()[0]) + 1)
    assert refused.code == 64
    assert "nccl allows one rank per GPU" in refused.err
    done = run(play, "same_gpu", name="by-hand", ranks_per_host=2, backend="gloo", env={"CUDA_VISIBLE_DEVICES": "0"})
    assert done.code == 1
    assert "Duplicate GPU detected" in verdict(play)["error"]
    assert "LOCAL_RANK" in verdict(play)["hint"]


def test_a_kernel_that_does_not_end_is_a_hang_with_its_line(play: Play) -> None:
    done = run(play, "spin", "300", idle_timeout="5s", grace="2s")
    assert done.code == 124
    assert "synchronize" in verdict(play)["message"]
    wait_until(lambda: users() == [], timeout_s=30, what="a GPU without users")
    assert play.left_on_host() == []


def test_a_restart_after_a_failure_of_cuda_gets_a_free_gpu(play: Play) -> None:
    done = run(play, "out_of_range_once", "1", restarts=1, restart_exit_codes=[1])
    assert done.code == 0, done.err
    assert play.document()["attempt"] == 2
    (line,) = [line for line in done.err.splitlines() if "restarting as attempt 2" in line]
    assert "device-side assert triggered" in line
    assert play.left_on_host() == []


def test_a_stop_frees_the_gpu(play: Play) -> None:
    child = play.start("run", job(play, "spin", "300", grace="2s"), "-i", LOCAL, "--name", "night")
    wait_until(lambda: len(users()) == 1, timeout_s=60, what="the rank on its GPU")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 130, (out, err)
    wait_until(lambda: users() == [], timeout_s=30, what="a GPU without users")
    assert play.left_on_host() == []


def test_somebody_elses_process_on_the_gpu_is_told(play: Play) -> None:
    with busy() as pid:
        planned = play("plan", job(play, "busy", "1"), "-i", LOCAL)
    assert re.search(rf"GPU 0 is in use by [^\n]*\b{pid}\b", planned.out + planned.err), planned


def test_checks_under_load(play: Play) -> None:
    done = play("check", "-i", LOCAL, "--level", "full", "--all", "--json", timeout_s=120)
    found = {row["check"]: row for row in done.json["findings"]}
    for name in ("gpus", "gpu memory errors", "gpu slowdown", "results under load", "speed under load"):
        assert found[name]["result"] == "pass", found[name]


def test_collectives_on_the_gpu(play: Play) -> None:
    options = ["-e", "ddp_job_ranks_per_host=1", "--backend", "nccl", "--json"]
    done = play("collectives", "-i", LOCAL, *options, timeout_s=120)
    (told,) = done.json["runs"]
    found = {row["name"]: row["status"] for row in told["result"]["collectives"]}
    assert found["all_reduce"] == found["all_reduce bf16"] == found["reduce_scatter_single"] == "works"
    assert set(found.values()) <= {"works", "not run", "refused"}


def test_collectives_over_gloo_have_an_outcome_for_every_case(play: Play) -> None:
    """With torch 2.11 all_gather_coalesced of GPU tensors ends the rank by SIGSEGV; the cases after it are tried."""
    options = ["-e", "ddp_job_ranks_per_host=1", "--backend", "gloo", "--json"]
    done = play("collectives", "-i", LOCAL, *options, timeout_s=180)
    found = {row["device"]: row["result"] for row in done.json["runs"]}
    assert {result["status"] for result in found.values()} == {"finished"}
    names = {device: [row["name"] for row in result["collectives"]] for device, result in found.items()}
    assert names["cuda"] == names["cpu"]
    crashed = [row for row in found["cuda"]["collectives"] if row["status"] == "crashed"]
    assert done.code == bool(crashed)
    assert all("signal" in row["detail"] for row in crashed)
