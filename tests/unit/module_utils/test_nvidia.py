"""Parsers over the text of driver files and programs: of an H100, and from documentation and public reports."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.module_utils import nvidia

from tests.unit.recorded_h100 import answer

# open-gpu-kernel-modules issues; the proprietary one from the driver README
NVRM_OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (dvs-builder)\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)
NVRM_PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
    "GCC version:  gcc version 14.2.0 (Debian 14.2.0-19)\n"
)
# dkms(8) and public reports
DKMS = """\
nvidia/580.178.04, 6.12.48+deb13-amd64, x86_64: installed
nvidia-current-open/550.163.01, 6.12.48+deb13-cloud-amd64, x86_64: built
nvidia-srv/580.159.03, 6.17.0-35-generic: installed (WARNING! Diff between built and installed module!)
nvidia, 470.256.02, 5.15.0-91-generic, x86_64: installed
nvidia/595.91.07: added
Error! Could not locate dkms.conf file.
"""
# shape of `nvidia-smi -q -x` as the driver's nvsmi_device_v12.dtd describes it
SMI = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <timestamp>Sat Nov 21 10:00:00 2026</timestamp>
  <driver_version>580.178.04</driver_version>
  <cuda_version>13.0</cuda_version>
  <attached_gpus>1</attached_gpus>
  <gpu id="00000000:1B:00.0">
    <product_name>NVIDIA H100 80GB HBM3</product_name>
    <persistence_mode>Enabled</persistence_mode>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
    <fabric><state>Completed</state><status>Success</status></fabric>
  </gpu>
</nvidia_smi_log>
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NVRM_OPEN, {"version": "580.95.05", "flavour": "open"}),
        (NVRM_PROPRIETARY, {"version": "550.163.01", "flavour": "proprietary"}),
        ("", {"version": "", "flavour": ""}),
    ],
)
def test_parse_nvrm(text: str, expected: dict[str, str]) -> None:
    assert nvidia.parse_nvrm(text) == expected


def test_parse_dkms() -> None:
    found = [(e["module"], e["version"], e["kernel"], e["state"]) for e in nvidia.parse_dkms(DKMS)]
    assert found == [
        ("nvidia", "580.178.04", "6.12.48+deb13-amd64", "installed"),
        ("nvidia-current-open", "550.163.01", "6.12.48+deb13-cloud-amd64", "built"),
        ("nvidia-srv", "580.159.03", "6.17.0-35-generic", "installed"),
        ("nvidia", "470.256.02", "5.15.0-91-generic", "installed"),
        ("nvidia", "595.91.07", "", "added"),
    ]


def test_parse_dkms_of_nothing() -> None:
    assert nvidia.parse_dkms("") == []


def test_parse_smi() -> None:
    smi = nvidia.parse_smi(SMI)
    assert (smi["driver_version"], smi["cuda_version"], len(smi["gpus"])) == ("580.178.04", "13.0", 1)
    assert smi["gpus"][0]["slot"] == "00000000:1b:00.0"
    assert smi["gpus"][0]["fabric_state"] == "Completed"
    assert (smi["gpus"][0]["mig"], smi["gpus"][0]["mig_pending"]) == ("Disabled", "Disabled")


def test_the_driver_of_an_h100() -> None:
    assert nvidia.parse_nvrm(answer("driver-version.txt")) == {"version": "580.159.04", "flavour": "open"}
    smi = nvidia.parse_smi(answer("smi-query.xml"))
    assert (smi["driver_version"], smi["cuda_version"]) == ("580.159.04", "13.0")
    assert smi["gpus"] == [
        {
            "slot": "00000000:00:06.0",
            "name": "NVIDIA H100 80GB HBM3",
            "mig": "Disabled",
            "mig_pending": "Disabled",
            "persistence": "Enabled",
            "fabric_state": "N/A",
            "fabric_status": "N/A",
        }
    ]


@pytest.mark.parametrize(
    ("licence", "flavour"),
    [("Dual MIT/GPL", "open"), ("NVIDIA", "proprietary"), ("", "")],
)
def test_licence_flavour(licence: str, flavour: str) -> None:
    assert nvidia.licence_flavour(licence) == flavour


@pytest.mark.parametrize(
    ("efivar", "state"),
    [
        (None, "unsupported"),
        (b"\x06\x00\x00\x00\x01", "enabled"),
        (b"\x06\x00\x00\x00\x00", "disabled"),
        (b"", "disabled"),
    ],
)
def test_parse_secure_boot(efivar: bytes | None, state: str) -> None:
    assert nvidia.parse_secure_boot(efivar) == state


def test_parse_dpkg_keeps_installed_packages_and_their_holds() -> None:
    text = (
        "libcuda1:amd64\t580.178.04-1\thi \nnvidia-modprobe\t595.91.07-1\tii \n"
        "nvidia-smi\t\tun \nnvidia-alternative\t550.163.01-2\trc \n"
    )
    assert nvidia.parse_dpkg(text) == {
        "libcuda1": {"version": "580.178.04-1", "held": True},
        "nvidia-modprobe": {"version": "595.91.07-1", "held": False},
    }


def test_parse_rpm_with_version_locks() -> None:
    text = "nvidia-driver-cuda\t3:580.95.05-1.el9\nnvidia-modprobe\t3:580.95.05-1.el9\n"
    locked = "# Added lock on Sat Nov 21\nnvidia-driver-cuda-3:580.95.05-1.el9.*\n"
    assert nvidia.parse_rpm(text, locked) == {
        "nvidia-driver-cuda": {"version": "580.95.05-1.el9", "held": True},
        "nvidia-modprobe": {"version": "580.95.05-1.el9", "held": False},
    }


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("580.178.04-1", "580.178.04"),
        ("3:580.95.05-1.el9", "580.95.05"),
        ("580.178.04-0ubuntu0.24.04.1", "580.178.04"),
    ],
)
def test_upstream(version: str, expected: str) -> None:
    assert nvidia.upstream(version) == expected


def module(version: str = "", flavour: str = "") -> dict[str, str]:
    return {"version": version, "flavour": flavour}


@pytest.mark.parametrize(
    ("loaded", "disk", "nouveau", "reasons"),
    [
        (module("580.178.04", "open"), module("580.178.04", "open"), False, []),
        (module(), module("580.178.04", "open"), False, []),  # modprobe is enough
        (module(), module(), True, []),  # nothing to reboot into
        (module(), module("580.178.04", "open"), True, ["nouveau is loaded and uses the GPU"]),
        (
            module("570.86.15"),
            module("580.178.04"),
            False,
            ["module 570.86.15 is loaded, 580.178.04 is on disk"],
        ),
        (
            module("580.178.04", "proprietary"),
            module("580.178.04", "open"),
            False,
            ["the proprietary module is loaded, the open one is on disk"],
        ),
    ],
)
def test_reboot_reasons(loaded: dict[str, str], disk: dict[str, str], nouveau: bool, reasons: list[str]) -> None:
    assert nvidia.reboot_reasons(loaded, disk, nouveau) == reasons
