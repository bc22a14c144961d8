"""Driver, GPU users and CUDA's answer, from files and a fake of the host's programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.ddp.play.plugins.module_utils import gpu_reading

NVRM = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\n"


def answers(monkeypatch: pytest.MonkeyPatch, **by_program: tuple[int, str, str]) -> None:
    def run(argv: list[str], timeout_s: int = 60) -> tuple[int, str, str]:
        assert timeout_s > 0
        return by_program.get(Path(argv[0]).name.replace("-", "_").split(".")[0], (127, "", f"{argv[0]}: not found"))

    monkeypatch.setattr(gpu_reading, "run", run)


def test_the_module_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = "filename: /lib/modules/6.1/nvidia.ko\nversion: 580.95.05\nlicense: Dual MIT/GPL\n"
    answers(monkeypatch, modinfo=(0, fields, ""))
    assert gpu_reading.disk_module("6.1") == {
        "version": "580.95.05",
        "flavour": "open",
        "path": "/lib/modules/6.1/nvidia.ko",
    }
    answers(monkeypatch)
    assert gpu_reading.disk_module("6.1") == {"version": "", "flavour": "", "path": ""}


def test_the_module_that_is_loaded(tmp_path: Path) -> None:
    assert gpu_reading.loaded_module(tmp_path, tmp_path) == {"version": "", "flavour": ""}
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(NVRM, encoding="ascii")
    assert gpu_reading.loaded_module(tmp_path, tmp_path) == {"version": "580.95.05", "flavour": "open"}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((9, "", "No devices were found"), "rc 9: No devices were found"),
        ((0, "<nvidia_smi_log>", ""), "unreadable XML"),
        ((0, "<nvidia_smi_log><driver_version>580.95.05</driver_version></nvidia_smi_log>", ""), ""),
    ],
)
def test_nvidia_smi(monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str, str], error: str) -> None:
    answers(monkeypatch, nvidia_smi=answer)
    found = gpu_reading.smi()
    assert found["error"].startswith(error)
    assert bool(found["error"]) == bool(error)
    assert found["gpus"] == []


@pytest.mark.parametrize(
    ("answer", "devices", "error"),
    [
        ((0, "8\n", ""), 8, ""),
        ((1, "", "Traceback\ncuInit 802\n"), 0, "cuInit 802"),
        ((124, "", ""), 0, "rc 124"),
    ],
)
def test_cuda(monkeypatch: pytest.MonkeyPatch, answer: tuple[int, str, str], devices: int, error: str) -> None:
    monkeypatch.setattr(gpu_reading, "run", lambda _argv, timeout_s: answer if timeout_s == 120 else None)
    assert gpu_reading.cuda_context() == {"devices": devices, "error": error}
