"""Quotas of file systems: a subvolume of btrfs whose limit the free space of its file system does not show."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.controller_acts import everything_comes_home
from tests.faults.scene import Scene
from tests.waiting import wait_until

# The file system has this much room, so that only the quota is in the way.
FILE_SYSTEM_MIB = 512


def with_quota(scene: Scene, where: Path, mib: int) -> None:
    """A file system with a quota of `mib` MiB, mounted at `where`."""
    if not shutil.which("mkfs.btrfs"):
        pytest.skip("needs a file system with quotas: apt-get install btrfs-progs")
    image = scene.root / f"{where.name}.img"
    with image.open("wb") as file:
        file.truncate(FILE_SYSTEM_MIB << 20)
    scene.notes.setdefault("mounts", []).append(where)
    where.mkdir(exist_ok=True)
    root = scene.root / f"{where.name}-root"
    root.mkdir()
    for words in (
        ["mkfs.btrfs", "-q", "-m", "single", str(image)],
        ["mount", "-o", "loop", str(image), str(root)],
        ["btrfs", "subvolume", "create", str(root / "limited")],
        ["btrfs", "quota", "enable", str(root)],
        ["btrfs", "qgroup", "limit", f"{mib}M", str(root / "limited")],
        ["mount", "--bind", str(root / "limited"), str(where)],
    ):
        subprocess.run(words, check=True, capture_output=True)
    scene.notes["mounts"].append(root)


def home_with_a_quota(scene: Scene) -> None:
    """The controller's state directory has a quota of eight megabytes."""
    with_quota(scene, scene.stage.home, 8)


def state_directory_with_a_quota(scene: Scene) -> None:
    """The hosts' state directory, with the ranks' logs, has a quota of twelve megabytes."""
    with_quota(scene, Path(scene.host_dir("h1")), 12)


def use_up_the_quota(scene: Scene) -> None:
    """The ranks print more than the quota allows, and the controller notices."""
    wait_until(
        lambda: any("quota" in row["message"].lower() for row in scene.events("warning")),
        timeout_s=120,
        what="the used-up quota is noticed",
    )


def attach_with_a_larger_quota(scene: Scene) -> None:
    """With more quota everything is fetched, to the last byte, and the hosts are clean."""
    subprocess.run(["btrfs", "qgroup", "limit", "300M", str(scene.notes["mounts"][1] / "limited")], check=True)
    everything_comes_home(scene)
