"""Full disks: of the bundles on the controller, of the home on a host."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.remedies.login_rows import as_user, edited
from tests.remedies.rows import Row

if TYPE_CHECKING:
    from pathlib import Path

    from tests.remedies.scene import Scene

AREA = "Full disks"
FILL = "full"


def full(scene: Scene, where: Path, *, kib: int = 8192) -> None:
    """Mount a small file system there, and fill it."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    where.mkdir(mode=0o700, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=700", "tmpfs", str(where)]
    subprocess.run(command, check=True, capture_output=True)
    scene.undo.append(lambda: subprocess.run(["umount", "-l", str(where)], check=True))
    (where / FILL).write_bytes(b"x" * kib * 1024)


def full_bundles(scene: Scene) -> list[str]:
    full(scene, scene.play.home, kib=32768)
    return ["run", scene.job(), "-i", scene.inventory(), "--name", "night"]


def free(scene: Scene, _told: object) -> None:
    """Remove what fills it."""
    (scene.play.home / FILL).unlink()


ROWS = (
    Row(
        "full disk of the bundles",
        AREA,
        "this machine has no space left for ... 0.0 MB are free, and a run begins with ... MB; nothing was started",
        "free some space: `df -h DIRECTORY`",
        full_bundles,
        70,
        fix=free,
    ),
    Row(
        "full home on a host",
        AREA,
        "cannot keep the files of ddp-play in /home/full/... No space left on device",
        "or set ddp_state_dir for the host to a directory on a local disk",
        as_user("full"),
        69,
        fix=edited('"full"', lambda _: '"full",\n "ddp_state_dir": "/home/apart/full"'),
    ),
)
