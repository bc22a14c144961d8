"""Which repository real apt takes the driver from, with the preferences that role nvidia_driver writes."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.content.test_platforms import Role
from tests.roles_gpu import vendor_data

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not shutil.which("apt-cache"), reason="no apt on this machine")
# As the vendor's package nvidia-driver-pinning-580 has it.
BRANCH = "Package: *nvidia*\nPin: version 580*\nPin-Priority: 1001\n"


def repository(folder: Path, sets: tuple[str, ...], origin: str) -> str:
    """A flat repository without package files; apt only reads its lists."""
    folder.mkdir(parents=True)
    rows = vendor_data.published(*sets)
    (folder / "Packages").write_text(
        "".join(
            f"Package: {row.name}\nVersion: {row.version}\nArchitecture: amd64\nFilename: ./{row.name}.deb\nSize: 1\n"
            f"SHA256: {'0' * 64}\n\n"
            for row in rows
        )
    )
    (folder / "Release").write_text(f"Origin: {origin}\nLabel: {origin}\nArchitectures: amd64\n")
    return f"deb [trusted=yes arch=amd64] file:{folder} ./\n"


def candidate(root: Path, package: str) -> str:
    options = [f"-oDir={root}", f"-oDir::State::status={root}/status", "-oAPT::Sandbox::User=root"]
    options += ["-oAPT::Architecture=amd64", "-oDir::Bin::methods=/usr/lib/apt/methods"]
    for command in (["apt-get", "update", "-q"], ["apt-cache", "policy", package]):
        done = subprocess.run([command[0], *options, *command[1:]], capture_output=True, text=True, check=True)
    found = re.search(r"Candidate: (\S+)", done.stdout)
    assert found, done.stdout + done.stderr
    return found[1]


@pytest.mark.parametrize("system", ["Ubuntu 22.04", "Ubuntu 24.04"])
def test_the_driver_comes_from_nvidia_although_ubuntu_has_a_newer_one(system: str, tmp_path: Path) -> None:
    archive = f"{system.lower().replace(' ', '-')}-archive"
    root = tmp_path / "root"
    for name in ("etc/apt/preferences.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / name).mkdir(parents=True)
    (root / "status").touch()
    lines = repository(tmp_path / "archive", (archive,), "Ubuntu")
    lines += repository(tmp_path / "cuda", ("cuda-ubuntu",), "NVIDIA")
    (root / "etc/apt/sources.list").write_text(lines)
    (root / "etc/apt/preferences.d/nvidia-driver-pinning").write_text(BRANCH)
    assert candidate(root, "libnvidia-compute-580").startswith("580.200.01")  # what happens without the role's file
    text = Role("nvidia_driver", system)["lookup('ansible.builtin.template', 'nvidia.pref.j2')"]
    (root / "etc/apt/preferences.d/ddp-nvidia").write_text(text)
    for name in ("libnvidia-compute-580", "libnvidia-decode-580", "nvidia-utils-580", "nvidia-dkms-580-open"):
        assert candidate(root, name) == "580.178.04-0ubuntu1"
    assert candidate(root, "dkms").startswith("3.0")
