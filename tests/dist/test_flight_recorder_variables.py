"""The flight recorder's variables, as the plan sets them, in the torch of these tests: it records and does not warn."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.planning.nccl import environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.dist

# gloo uses the same recorder as NCCL, which needs a GPU.
RECORDS = """
import torch, torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace_json
dist.init_process_group("gloo", init_method="file://{store}", rank=0, world_size=1)
dist.all_reduce(torch.ones(1))
print(torch.__version__, "all_reduce" in str(_dump_fr_trace_json()))
dist.destroy_process_group()
"""


def record(tmp_path: Path, torch: str) -> tuple[str, str]:
    """(output, warnings) of a rank with the variables for this version of torch."""
    variables = {name: value for name, value, _ in environment(str(tmp_path), 0, torch)}
    code = RECORDS.format(store=tmp_path / "store")
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return done.stdout, done.stderr


def test_torch_records_and_warns_only_where_its_version_was_unknown(tmp_path: Path) -> None:
    out, warnings = record(tmp_path, "")
    version, recorded = out.split()
    assert recorded == "True"
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE is deprecated" in warnings, "torch has changed: look at RENAMED again"
    (tmp_path / "store").unlink(missing_ok=True)
    out, warnings = record(tmp_path, version)
    assert out.split()[1] == "True"
    assert "deprecated" not in warnings
