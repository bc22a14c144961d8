"""What hosts tell of their GPUs, next to what torch and nvidia-smi tell of the same GPU."""

from __future__ import annotations

import time

import pytest
import torch

from ddp_play.guard import gpu_states, gpus, nvml

pytestmark = [pytest.mark.gpu]


def test_facts_name_the_gpus_that_torch_sees() -> None:
    found, problem = gpus.gpus()
    assert problem == ""
    assert len(found) == torch.cuda.device_count()
    for row in found:
        about = torch.cuda.get_device_properties(row["index"])
        assert row["uuid"] == f"GPU-{about.uuid}"
        assert row["model"] == about.name
        assert abs(row["memory_mib"] - (about.total_memory >> 20)) < 1024  # torch leaves out what the driver keeps
        assert row["driver"].split(".")[0].isdigit()


def test_states_have_what_the_checks_judge() -> None:
    found = gpu_states.states()
    assert sorted(found) == sorted(row["uuid"] for row in gpus.gpus()[0])
    for row in found.values():
        assert row["index"].isdigit()
        assert int(row["pcie.link.width.current"]) <= int(row["pcie.link.width.max"])
        assert float(row["power.limit"]) > 0
        assert set(row) - set(gpu_states.FIELDS) - set(gpu_states.REMAPPED) <= {"index", "nvlinks"}


def test_samples_tell_the_memory_that_nvidia_smi_tells() -> None:
    reading = nvml.Nvml()
    (total,) = {row["memory_total"] for row in reading.describe().values()}
    kept = torch.zeros(2 << 30, dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize()
    (text,) = gpus.smi(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
    shown = [int(line) for line in text.split()]
    used = [row["memory"] / 2**20 for row in reading.read().values()]
    assert len(used) == len(shown)
    assert all(abs(one - other) <= 16 for one, other in zip(used, shown, strict=True)), (used, shown)
    assert used[0] * 2**20 > kept.numel()
    assert total > used[0] * 2**20


def test_a_busy_gpu_is_told_as_busy() -> None:
    reading = nvml.Nvml()
    one = torch.randn(4096, 4096, device="cuda:0")
    until = time.monotonic() + 3
    while time.monotonic() < until:
        one @ one
        torch.cuda.synchronize()
    found = reading.read()["0"]
    assert found["utilization"] >= 50
    assert found["power"] > 0
    assert found["sm_clock"] > 0
    assert 0 < found["temperature"] < 120
