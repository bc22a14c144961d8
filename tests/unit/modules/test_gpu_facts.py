"""Who holds a GPU open: jobs, not the daemons that watch over GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible_collections.ddp.play.plugins.modules import gpu_facts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "device", "is_user"),
    [
        ("python3", "/dev/nvidia0", True),
        ("python3", "/dev/null", False),
        ("nvidia-persiste", "/dev/nvidiactl", False),
        ("dcgm-exporter", "/dev/nvidia0", False),  # role monitoring's own: it kept every later driver away
    ],
)
def test_users(tmp_path: Path, name: str, device: str, is_user: bool) -> None:
    process = tmp_path / "4242"
    (process / "fd").mkdir(parents=True)
    (process / "fd" / "7").symlink_to(device)
    (process / "comm").write_text(name + "\n")
    assert gpu_facts.gpu_users(tmp_path) == ([{"pid": 4242, "name": name}] if is_user else [])
