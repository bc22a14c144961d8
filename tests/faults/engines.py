"""Faults of hosts' container engines and images, and what undoes them."""

from __future__ import annotations

import json

from tests.faults import controller_acts, hosts, measuring
from tests.faults.scene import Scene
from tests.waiting import wait_until


def stop_engine(scene: Scene) -> None:
    """The engine of h2 is stopped, and takes its containers down."""
    scene.mark()
    scene.stage.on("h2", "systemctl stop docker.socket docker")


def start_engine(scene: Scene) -> None:
    """As before."""
    scene.stage.on("h2", "systemctl start docker.socket docker && timeout 60 docker version >/dev/null")


def freeze_engine(scene: Scene, host: str) -> None:
    """dockerd accepts requests and answers none."""
    scene.notes["frozen"] = host
    scene.stage.on(host, "kill -STOP $(cat /run/docker.pid)")


def thaw_engine(scene: Scene) -> None:
    """It carries out what it was asked meanwhile."""
    if host := scene.notes.pop("frozen", None):
        scene.stage.on(host, "kill -CONT $(cat /run/docker.pid) && timeout 60 docker version >/dev/null")


def freeze_engine_and_interrupt(scene: Scene) -> None:
    """Ctrl-C while the engine of h2 hangs; it is thawed when the run has ended."""
    freeze_engine(scene, "h2")
    controller_acts.interrupt(scene)
    assert scene.child is not None
    scene.child.wait(120)
    thaw_engine(scene)


def freeze_engine_and_cut_head(scene: Scene) -> None:
    """The head is cut off, and its engine tells nobody how a rank ended."""
    freeze_engine(scene, "h1")
    hosts.cut_head(scene)


def thaw_and_mend(scene: Scene) -> None:
    """Whatever happened."""
    thaw_engine(scene)
    hosts.mend_network(scene)


def stubborn_rank_ended_in_time(scene: Scene) -> None:
    """Rank 0 ended by SIGTERM; rank 1 had to be killed, although the engine said nothing of rank 0."""
    thaw_engine(scene)
    rows = [hosts.rank_row(scene, "h1", rank) for rank in (0, 1)]
    began = min(row["started"] for row in scene.document()["ranks"])
    assert all(scene.fault_at + 3 < row["ended"] < began for row in rows), (scene.fault_at, rows, began)
    hosts.old_head_ended_in_time(scene)


def sweeps_when_the_engine_is_back(scene: Scene) -> None:
    """run.json names what could not be removed, and gc removes it."""
    start_engine(scene)
    sweeps_what_is_left(scene)


def sweeps_what_is_left(scene: Scene) -> None:
    """The same, with an engine that answers again."""
    assert "container" in json.dumps(scene.document()["left_behind"].get("h2", [])), scene.document()["left_behind"]
    scene.play("gc", "-i", str(scene.stage.inventory), "--yes")
    assert scene.child is not None
    assert scene.child.wait(120) == 0, scene.text()[-2000:]
    assert measuring.look(scene, "h2") == ()


def keep_containers(scene: Scene) -> None:
    """live-restore on h2: containers outlive their engine."""
    script = """import json, pathlib; p = pathlib.Path("/etc/docker/daemon.json")
d = json.loads(p.read_text()) if p.exists() else {}; d["live-restore"] = True
p.parent.mkdir(exist_ok=True); p.write_text(json.dumps(d))"""
    scene.stage.on(
        "h2",
        f"cp /etc/docker/daemon.json /tmp/daemon.json 2>/dev/null; python3 -c '{script}' && systemctl reload docker",
    )
    wait_until(
        lambda: scene.stage.on("h2", "docker info --format '{{.LiveRestoreEnabled}}'") == "true",
        timeout_s=30,
        what="live-restore on h2",
    )


def restart_engine(scene: Scene) -> None:
    """The engine goes away under its containers and comes back."""
    scene.stage.on("h2", "systemctl restart docker")


def let_containers_go(scene: Scene) -> None:
    """The engine as it was."""
    scene.stage.on(
        "h2", "mv /tmp/daemon.json /etc/docker/daemon.json 2>/dev/null || rm -f /etc/docker/daemon.json; "
        "systemctl reload docker"
    )  # fmt: skip


def hide_image(scene: Scene) -> None:
    """h3 has no image of that name."""
    scene.stage.on("h3", "docker tag ddp-play-rank:slim kept:1 && docker rmi ddp-play-rank:slim")


def show_image(scene: Scene) -> None:
    """As before."""
    scene.stage.on("h3", "docker tag kept:1 ddp-play-rank:slim && docker rmi kept:1")
