"""Faults of the controller and of the disks that it and the guards write to: each takes the scene of its row."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.endings import kill_each
from tests.faults import measuring
from tests.faults.scene import Scene
from tests.faults.shared_directory_acts import mount
from tests.waiting import wait_until


def kill_controller(scene: Scene) -> None:
    """Everything of ours where the command was typed is gone at once; then somebody attaches."""
    kill_each(scene.login_pids())
    assert scene.child is not None
    scene.child.wait(10)
    scene.play("attach", scene.run)


def interrupt(scene: Scene) -> None:
    """Ctrl-C."""
    scene.mark()
    assert scene.child is not None
    os.kill(scene.child.pid, signal.SIGINT)


def interrupt_twice(scene: Scene) -> None:
    """Ctrl-C, and again when the first has been heard."""
    interrupt(scene)
    wait_until((scene.bundle / "control" / "stop").exists, timeout_s=20, what="the first Ctrl-C is heard")
    time.sleep(0.3)
    assert scene.child is not None
    os.kill(scene.child.pid, signal.SIGINT)


def in_discover(scene: Scene) -> None:
    """Ctrl-C when the playbook has begun."""
    wait_until(lambda: scene.events("play"), timeout_s=60, what="the play has begun", every_s=0.02)
    interrupt(scene)


def in_launch(scene: Scene) -> None:
    """Ctrl-C when the hosts are being prepared."""
    wait_phase(scene, "preparing")
    interrupt(scene)


def in_collect(scene: Scene) -> None:
    """Ctrl-C when the artifacts come home."""
    wait_phase(scene, "collecting")
    interrupt(scene)


def in_collect_twice(scene: Scene) -> None:
    """The same, and again."""
    wait_phase(scene, "collecting")
    interrupt_twice(scene)


def wait_phase(scene: Scene, phase: str) -> None:
    def there() -> bool:
        return any(row["phase"] == phase for row in scene.events("phase"))

    wait_until(there, timeout_s=180, what=phase, every_s=0.02)


def small_home(scene: Scene) -> None:
    """The controller's state is on a disk of eight megabytes."""
    mount(scene, scene.stage.home, 8)


def fill_home(scene: Scene) -> None:
    """The ranks print more than there is room for."""
    wait_until(
        lambda: any("no space left" in row["message"] for row in scene.events("warning")),
        timeout_s=120,
        what="the full disk is noticed",
    )


def small_state_disk(scene: Scene) -> None:
    """The hosts' state directory is on a disk of twelve megabytes."""
    mount(scene, Path(scene.host_dir("h1")), 12)


def interrupt_on_a_full_host(scene: Scene) -> None:
    """Ctrl-C once the ranks' logs have filled the disk of their hosts and the controller says so."""
    wait_until(
        lambda: any("cannot be written" in row["message"] for row in scene.events("warning")),
        timeout_s=60,
        what="the full disk of the hosts is reported",
    )
    before = _steps(scene)
    wait_until(lambda: _steps(scene) > before, timeout_s=20, what="the ranks go on")
    interrupt(scene)


def _steps(scene: Scene) -> int:
    """CPU time of the ranks in ticks: their logs grow no more."""
    total = 0
    for rank in range(4):
        _, pid = scene.rank_process(rank)
        total += int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
    return total


def attach_brings_it_home(scene: Scene) -> None:
    """With room again everything is fetched, to the last byte, and the hosts are clean."""
    subprocess.run(["mount", "-o", "remount,size=200m", str(scene.stage.home)], check=True)
    everything_comes_home(scene)


def everything_comes_home(scene: Scene) -> None:
    """`attach` ends a run whose files stayed on the hosts, and nothing of it is there any more."""
    scene.play("attach", scene.run)
    assert scene.child is not None
    assert scene.child.wait(120) == 0, scene.text()[-3000:]
    assert scene.document()["status"] == "succeeded"
    assert measuring.compare_logs(scene, scene.document()) == []
    assert measuring.look(scene, "h1") == ()
