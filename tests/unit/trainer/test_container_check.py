"""The program that `ddp-play check PLAYBOOK` runs in a container of the job: as it is sent, on this machine."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from trainer import container_check

SOURCE = Path(container_check.__file__).read_text(encoding="utf-8")


def parts(order: dict[str, Any], wrap: tuple[str, ...] = ()) -> dict[str, dict[str, Any]]:
    words = [*wrap, sys.executable, "-c", SOURCE, json.dumps(order)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["part"]: row for row in rows}


def test_what_a_rank_there_may_use_and_sees(tmp_path: Path) -> None:
    wanted = {"work": str(tmp_path), "none": str(tmp_path / "none")}
    found = parts({"names": ["localhost", "ddp-play.invalid"], "directories": wanted, "file": ".probe"})
    assert list(found) == ["start", "limits", "memory", "devices", "versions", "names", "directories"]
    assert (found["start"]["python"], found["start"]["uid"]) == (sys.executable, os.getuid())
    assert found["memory"]["size_mib"] >= found["memory"]["free_mib"] >= 0
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["torch"] == importlib.metadata.version("torch")
    assert "127.0.0.1" in found["names"]["found"]["localhost"]["addresses"]
    assert found["names"]["found"]["ddp-play.invalid"]["error"]
    assert found["directories"]["found"]["work"] == {"path": str(tmp_path), "problem": ""}
    assert found["directories"]["found"]["none"]["problem"] == "No such file or directory"
    assert list(tmp_path.iterdir()) == [], "its file is removed"


def test_a_program_that_is_killed_leaves_only_the_file_of_this_name(tmp_path: Path) -> None:
    """The host knows the name, and removes it: `tests/unit/checks/test_job_containers.py`."""
    hangs = SOURCE.replace("os.fsync(file.fileno())", "os.kill(os.getpid(), 9)")
    order = json.dumps({"names": [], "directories": {"work": str(tmp_path)}, "file": ".probe"})
    done = subprocess.run([sys.executable, "-c", hangs, order], capture_output=True, check=False, timeout=60)
    assert done.returncode == -9
    assert [path.name for path in tmp_path.iterdir()] == [".probe"]


def test_limits_are_those_of_the_process() -> None:
    found = parts(
        {"names": [], "directories": {}, "file": ".probe"}, wrap=("sh", "-c", 'ulimit -n 77; exec "$@"', "limited")
    )
    assert (found["limits"]["nofile"], found["limits"]["soft_nofile"]) == (77, 77)


def test_processes_of_the_control_group(tmp_path: Path) -> None:
    assert container_check.limits(str(tmp_path))["pids"] is None
    (tmp_path / "pids").mkdir()
    (tmp_path / "pids" / "pids.max").write_text("60\n")
    (tmp_path / "pids" / "pids.current").write_text("3\n")
    assert container_check.limits(str(tmp_path))["pids"] == {"max": 60, "now": 3}
    (tmp_path / "pids" / "pids.max").write_text("max\n")
    assert container_check.limits(str(tmp_path))["pids"] is None


def test_device_files(tmp_path: Path) -> None:
    assert container_check.devices(str(tmp_path)) == {"gpus": 0, "rdma": []}
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "infiniband/uverbs0"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert container_check.devices(str(tmp_path)) == {"gpus": 2, "rdma": ["uverbs0"]}


def test_a_part_that_fails_is_said_and_the_next_one_follows() -> None:
    found = parts({"directories": {}, "file": ".probe"})
    assert found["names"]["problem"] == "KeyError: 'names'"
    assert found["directories"]["found"] == {}
