"""Tests on a machine with an NVIDIA GPU and a torch with CUDA; elsewhere they are skipped, or fail if required."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from tests.required import skip_or_fail
from tests.run.conftest import play

__all__ = ["play"]

PROBE = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 'torch sees no GPU')"


def _missing() -> str:
    """What this machine lacks for these tests; empty if it has all."""
    if shutil.which("nvidia-smi") is None:
        return "nvidia-smi is missing"
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="session", autouse=True)
def _needs_gpu() -> None:
    if missing := _missing():
        skip_or_fail("GPU", missing)
