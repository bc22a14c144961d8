"""Faults of the directory that all hosts share, and mounts for small disks: each takes the scene of its row."""

from __future__ import annotations

import contextlib
import json
import subprocess
from pathlib import Path

from tests.faults.scene import Scene
from tests.faults.stage import Here


def mount(scene: Scene, where: Path, mib: int) -> None:
    """A small file system in memory."""
    where.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "tmpfs", str(where)], check=True)
    scene.notes.setdefault("mounts", []).append(where)


def unmount(scene: Scene) -> None:
    """What was mounted for this row."""
    for where in scene.notes.get("mounts", []):
        subprocess.run(["umount", "-l", str(where)], check=False, capture_output=True)


def share(scene: Scene) -> None:
    """All hosts share a small directory."""
    where = scene.root / "shared"
    mount(scene, where, 16)
    assert isinstance(scene.stage, Here)
    scene.stage.write_inventory(ddp_shared_dir=str(where))


def share_read_only(scene: Scene) -> None:
    """The mount turns read-only, as a file system does after an error."""
    scene.mark()
    subprocess.run(["mount", "-o", "remount,ro", str(scene.notes["mounts"][0])], check=True)


def says_what_stays_in_the_shared_directory(scene: Scene) -> None:
    """It could not be removed, and run.json says so."""
    assert "Read-only" in json.dumps(scene.document()["left_behind"]), scene.document()["left_behind"]


def share_full(scene: Scene) -> None:
    """Somebody fills it."""
    scene.mark()
    with contextlib.suppress(OSError), (scene.notes["mounts"][0] / "filler").open("wb") as filler:
        while True:
            filler.write(bytes(1 << 20))


def share_gone(scene: Scene) -> None:
    """The mount is gone from under the ranks."""
    scene.mark()
    subprocess.run(["umount", "-l", str(scene.notes["mounts"][0])], check=True)
