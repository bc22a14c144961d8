"""GPUs through NVML: a small library with its functions, built here, stands for the driver's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ddp_play.guard.nvml import Nvml, NvmlError

LIBRARY = """
#include <string.h>
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned long long total, free, used; } memory;
static int gpus[2] = {0, 1};
int nvmlInit_v2(void) { return INIT; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &gpus[index]; return 0; }
int nvmlDeviceGetName(int *device, char *name, unsigned length) { strncpy(name, "NVIDIA H100", length); return 0; }
int nvmlDeviceGetMemoryInfo(int *device, memory *found) {
    found->total = 85899345920ULL; found->free = 1; found->used = 5000000000ULL + *device; return 0;
}
#ifdef RESERVED
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
int nvmlDeviceGetMemoryInfo_v2(int *device, memory_v2 *found) {
    if (found->version != (sizeof(memory_v2) | 2 << 24)) return 25;
    found->total = 85899345920ULL; found->reserved = RESERVED; found->used = 5000000000ULL - RESERVED; return 0;
}
#endif
int nvmlDeviceGetEnforcedPowerLimit(int *device, unsigned *milliwatts) { *milliwatts = 700000; return 0; }
int nvmlDeviceGetUtilizationRates(int *device, utilization *found) {
    found->gpu = 97; found->memory = 3; return *device ? 3 : 0;  /* the second is divided */
}
int nvmlDeviceGetPowerUsage(int *device, unsigned *milliwatts) { *milliwatts = 300500; return 0; }
int nvmlDeviceGetTemperature(int *device, unsigned sensor, unsigned *degrees) { *degrees = 61; return sensor; }
#ifdef CLOCKS
int nvmlDeviceGetClockInfo(int *device, unsigned clock, unsigned *mhz) { *mhz = 1980; return clock != 1; }
#endif
"""


def built(directory: Path, *defines: str) -> str:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (directory / "nvml.c").write_text(LIBRARY)
    library = directory / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", *defines, "-o", str(library), str(directory / "nvml.c")], check=True)
    return str(library)


def test_all_gpus(tmp_path: Path) -> None:
    nvml = Nvml(built(tmp_path, "-DINIT=0", "-DCLOCKS"))
    about = {"name": "NVIDIA H100", "memory_total": 85_899_345_920, "power_limit": 700.0}
    assert nvml.describe() == {"0": about, "1": about}
    both = {"power": 300.5, "temperature": 61.0, "sm_clock": 1980.0}
    assert nvml.read() == {
        "0": {"utilization": 97, "memory": 5_000_000_000, **both},
        "1": {"memory": 5_000_000_001, **both},
    }


def test_memory_that_the_driver_keeps_for_itself_is_not_used(tmp_path: Path) -> None:
    nvml = Nvml(built(tmp_path, "-DINIT=0", "-DRESERVED=503316480"))
    assert nvml.read()["0"]["memory"] == 5_000_000_000 - 503_316_480
    assert nvml.describe()["0"]["memory_total"] == 85_899_345_920


def test_a_driver_that_lacks_a_function(tmp_path: Path) -> None:
    assert "sm_clock" not in Nvml(built(tmp_path, "-DINIT=0")).read()["0"]


def test_a_driver_that_does_not_work(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="nvmlInit_v2 failed"):
        Nvml(built(tmp_path, "-DINIT=9"))


def test_no_driver() -> None:
    with pytest.raises(OSError, match="libnothing"):
        Nvml("libnothing.so")
