"""Faults of whole hosts, their engines, networks, clocks and ports, and what undoes them."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.faults import controller_acts
from tests.faults.scene import Scene
from tests.faults.stage import OnLab
from tests.waiting import wait_until


# -- engines -----------------------------------------------------------------------------------------
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
    cut_head(scene)


def thaw_and_mend(scene: Scene) -> None:
    """Whatever happened."""
    thaw_engine(scene)
    mend_network(scene)


def stubborn_rank_ended_in_time(scene: Scene) -> None:
    """Rank 0 ended by SIGTERM; rank 1 had to be killed, although the engine said nothing of rank 0."""
    thaw_engine(scene)
    rows = [_rank_row(scene, "h1", rank) for rank in (0, 1)]
    began = min(row["started"] for row in scene.document()["ranks"])
    assert all(scene.fault_at + 3 < row["ended"] < began for row in rows), (scene.fault_at, rows, began)
    old_head_ended_in_time(scene)


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
    assert scene.look("h2") == ()


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


# -- network and clock -------------------------------------------------------------------------------
DROP = "INPUT -p tcp --dport 22 -j DROP"


def cut_ssh(scene: Scene) -> None:
    """Nothing reaches the SSH port of h2 until we have noticed; its ranks talk on."""
    scene.stage.on("h2", f"iptables -I {DROP}")
    wait_until(lambda: _host_events(scene, "silent"), timeout_s=30, what="h2 is silent")
    before = scene.step()
    scene.stage.on("h2", f"iptables -D {DROP}")
    wait_until(lambda: _host_events(scene, "back"), timeout_s=40, what="h2 is back")
    wait_until(lambda: scene.step(2) > before, timeout_s=20, what="the view of rank 2 goes on")


def mend_ssh(scene: Scene) -> None:
    """Whatever happened, the port is open."""
    scene.stage.on("h2", f"while iptables -D {DROP} 2>/dev/null; do :; done")


def _host_events(scene: Scene, state: str) -> bool:
    return any(row["host"] == "h2" and row["state"] == state for row in scene.events("host"))


def cut_network(scene: Scene, host: str) -> None:
    """No packet in or out; what is mounted stays mounted, as on a storage network of its own."""
    scene.mark()
    scene.notes.setdefault("cut", set()).add(host)
    scene.stage.on(host, "iptables -I INPUT -i eth0 -j DROP; iptables -I OUTPUT -o eth0 -j DROP")


def mend_network(scene: Scene) -> None:
    """Whatever was cut, packets flow."""
    script = (
        "while iptables -D INPUT -i eth0 -j DROP 2>/dev/null; do :; done;"
        "while iptables -D OUTPUT -o eth0 -j DROP 2>/dev/null; do :; done"
    )
    for host in scene.notes.get("cut", ()):
        scene.stage.on(host, script)


def cut_for_five_seconds(scene: Scene) -> None:
    """h2 hears and says nothing for five seconds."""
    cut_network(scene, "h2")
    time.sleep(5)
    mend_network(scene)
    before = scene.step(2)
    wait_until(lambda: scene.step(2) > before, timeout_s=40, what="rank 2 goes on")


def cut_for_long(scene: Scene) -> None:
    """h2 hears and says nothing until all is over."""
    cut_network(scene, "h2")
    scene.down.add("h2")


def cut_head(scene: Scene) -> None:
    """The head hears and says nothing, and its rank 0 is alive behind the cut."""
    cut_network(scene, "h1")
    scene.down.add("h1")


def ended_by_itself_and_swept(scene: Scene) -> None:
    """Behind the cut the lease has ended the rank; after a minute the network is back, and gc finds what is left."""
    wait_until(lambda: _rank_row(scene, "h2", 2)["ended"], timeout_s=40, what="h2 ended its rank")
    time.sleep(max(0.0, scene.fault_at + 60 - time.time()))
    mend_network(scene)
    sweep(scene, "h2")


def old_head_ended_in_time(scene: Scene) -> None:
    """The old rank 0 lived on behind the cut, and it was over before the next attempt began."""
    ended = _rank_row(scene, "h1", 0)["ended"]
    began = min(row["started"] for row in scene.document()["ranks"])
    assert scene.fault_at + 3 < ended < began, (scene.fault_at, ended, began)
    assert scene.document()["left_behind"].get("h1"), scene.document()["left_behind"]
    mend_network(scene)
    sweep(scene, "h1")


def _rank_row(scene: Scene, host: str, rank: int) -> dict[str, Any]:
    """What the guard of a host knows of a rank; this machine's hosts have one clock."""
    return dict(scene.state(host)["ranks"][str(rank)])


def power_off(scene: Scene, host: str) -> None:
    """A host is gone at once, and nothing tells anybody."""
    assert isinstance(scene.stage, OnLab)
    scene.down.add(host)
    scene.notes["off"] = host
    scene.mark()
    scene.stage.power_off(host)


def power_off_second(scene: Scene) -> None:
    """h2 loses power."""
    power_off(scene, "h2")


def power_off_head(scene: Scene) -> None:
    """h1, which has rank 0, loses power."""
    power_off(scene, "h1")


def power_on(scene: Scene) -> None:
    """It has power again, and is up: its engine answers, and SSH does."""
    host = scene.notes.pop("off", None)
    if host is None:
        return
    assert isinstance(scene.stage, OnLab)
    lab = scene.stage.lab
    scene.stage.power_on(host)

    def up() -> bool:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            scene.stage.on(host, "docker version >/dev/null")
            return lab.play("lab", "ssh", "--name", lab.name, host, "true").returncode == 0
        return False

    wait_until(up, timeout_s=120, what=f"{host} is up again", every_s=1)


def is_swept_after_boot(scene: Scene) -> None:
    """What the host kept over the loss of power is found when it is back."""
    host = scene.notes["off"]
    power_on(scene)
    sweep(scene, host)


def sweep(scene: Scene, host: str) -> None:
    """attach collects from a host that was lost, and gc removes what else the run left there.

    A host that was cut off may hold on to its broken line for a moment.
    """

    def swept() -> bool:
        scene.play("attach", scene.run)
        assert scene.child is not None
        scene.child.wait(120)
        scene.play("gc", "-i", str(scene.stage.inventory), "--yes")
        assert scene.child.wait(120) == 0, scene.text()[-2000:]
        return scene.look(host) == ()

    wait_until(swept, timeout_s=90, what=f"nothing is left on {host}", every_s=2)


def set_clock_ahead(scene: Scene) -> None:
    """Every Python that the controller starts on h3 lives five minutes in the future; the clock itself is shared."""
    late = "/usr/local/bin/python-ahead"
    script = (
        "test -e /usr/bin/faketime || (apt-get update -qq && apt-get install -y -qq faketime) >/dev/null 2>&1\n"
        "lib=$(ls /usr/lib/*/faketime/libfaketime.so.1)\n"
        f"printf '#!/bin/sh\\nLD_PRELOAD=%s FAKETIME=+300s exec python3 \"$@\"\\n' $lib"
        f" >{late} && chmod +x {late}"
    )
    scene.stage.on("h3", script)
    scene.options += ("-e", "@" + str(_interpreters(scene, late)))


def _interpreters(scene: Scene, late: str) -> Path:
    path = scene.root / "clock.json"
    choice = "{{ '" + late + "' if inventory_hostname == 'h3' else '/usr/bin/python3' }}"
    path.write_text(json.dumps({"ansible_python_interpreter": choice}))
    return path


def tells_times_on_one_clock(scene: Scene) -> None:
    """All ranks began and ended while the run lasted, on the controller's clock."""
    document = scene.document()
    for row in document["ranks"]:
        assert document["created"] <= row["started"] <= row["ended"] <= document["ended"] + 1, row
    plan = json.loads((scene.bundle / "plan.json").read_text())
    assert any("h3" in text and "clock" in text for text in plan["warnings"]), plan["warnings"]


def take_port(scene: Scene) -> None:
    """Another program listens on the first port of the range."""
    listener = socket.create_server(("0.0.0.0", 29870))
    scene.notes["listener"] = listener


def give_port(scene: Scene) -> None:
    """It ends."""
    scene.notes["listener"].close()


def took_the_next_port(scene: Scene) -> None:
    """The second one of the range."""
    assert scene.document()["head_port"] == 29871
