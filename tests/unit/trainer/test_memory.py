"""Free memory."""

from pathlib import Path

import pytest

from trainer.memory import cgroup_left, host_available


def test_memory() -> None:
    assert host_available("MemTotal: 9 kB\nMemAvailable:    5 kB\n") == 5120


@pytest.mark.parametrize(("limit", "left"), [("max\n", None), ("1000\n", 900), ("50\n", 0)])
def test_cgroup_left(tmp_path: Path, limit: str, left: int | None) -> None:
    (tmp_path / "max").write_text(limit)
    (tmp_path / "current").write_text("100\n")
    assert cgroup_left(tmp_path / "max", tmp_path / "current") == left
    assert cgroup_left(tmp_path / "absent", tmp_path / "current") is None
