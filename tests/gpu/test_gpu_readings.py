"""What hosts tell of their GPUs, next to what torch and nvidia-smi tell of the same GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ddp_play.guard import gpu_states, gpus, nvml
from tests.gpu.processes import busy
from tests.waiting import wait_until

pytestmark = [pytest.mark.gpu]
# A process of its own: one that has asked torch keeps the GPU until it ends.
PROPERTIES = """
import json, torch
rows = [torch.cuda.get_device_properties(at) for at in range(torch.cuda.device_count())]
print(json.dumps([{"uuid": f"GPU-{row.uuid}", "name": row.name, "memory": row.total_memory} for row in rows]))
"""


def properties() -> list[dict[str, Any]]:
    """What torch tells of each GPU."""
    done = subprocess.run([sys.executable, "-c", PROPERTIES], capture_output=True, text=True, timeout=120, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_facts_name_the_gpus_that_torch_sees() -> None:
    found, problem = gpus.gpus()
    assert problem == ""
    for row, about in zip(found, properties(), strict=True):
        assert (row["uuid"], row["model"]) == (about["uuid"], about["name"])
        assert abs(row["memory_mib"] - (about["memory"] >> 20)) < 1024  # torch leaves out what the driver keeps
        assert row["driver"].split(".")[0].isdigit()


def test_states_have_what_the_checks_judge() -> None:
    found = gpu_states.states()
    assert sorted(found) == sorted(row["uuid"] for row in gpus.gpus()[0])
    for row in found.values():
        assert row["index"].isdigit()
        assert int(row["pcie.link.width.current"]) <= int(row["pcie.link.width.max"])
        assert float(row["power.limit"]) > 0
        assert set(row) - set(gpu_states.FIELDS) - set(gpu_states.REMAPPED) <= {"index", "nvlinks"}


def test_a_reading_tells_the_memory_that_nvidia_smi_tells_and_that_the_gpu_is_busy() -> None:
    reading = nvml.Nvml()
    with busy():
        wait_until(lambda: reading.read()["0"]["utilization"] >= 50, timeout_s=30, what="a busy GPU")
        (text,) = gpus.smi(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
        row = reading.read()["0"]
    shown_mib = int(text.split()[0])
    assert abs(row["memory"] / 2**20 - shown_mib) <= 16
    assert 4 << 30 < row["memory"] < reading.describe()["0"]["memory_total"]
    assert row["power"] > 0
    assert row["sm_clock"] > 0
    assert 0 < row["temperature"] < 120
