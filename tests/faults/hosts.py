"""Faults of whole hosts, their networks, power, clocks and ports, and what undoes them."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.faults import measuring
from tests.faults.scene import Scene
from tests.faults.slurm_stage import OnSlurm
from tests.faults.stage import OnLab
from tests.waiting import wait_until

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
    wait_until(lambda: rank_row(scene, "h2", 2)["ended"], timeout_s=40, what="h2 ended its rank")
    time.sleep(max(0.0, scene.fault_at + 60 - time.time()))
    mend_network(scene)
    sweep(scene, "h2")


def old_head_ended_in_time(scene: Scene) -> None:
    """The old rank 0 lived on behind the cut, and it was over before the next attempt began."""
    ended = rank_row(scene, "h1", 0)["ended"]
    began = min(row["started"] for row in scene.document()["ranks"])
    assert scene.fault_at + 3 < ended < began, (scene.fault_at, ended, began)
    assert scene.document()["left_behind"].get("h1"), scene.document()["left_behind"]
    mend_network(scene)
    sweep(scene, "h1")


def rank_row(scene: Scene, host: str, rank: int) -> dict[str, Any]:
    """What the guard of a host knows of a rank; this machine's hosts have one clock."""
    return dict(scene.state(host)["ranks"][str(rank)])


def power_off(scene: Scene, host: str) -> None:
    """A host is gone at once, and nothing tells anybody."""
    assert isinstance(scene.stage, OnLab | OnSlurm)
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


def shut_down_second(scene: Scene) -> None:
    """h2 shuts down in order: systemd ends ranks, engine and guard, each at a time of its own."""
    scene.down.add("h2")
    scene.notes["off"] = "h2"
    scene.mark()
    scene.stage.on("h2", "systemctl poweroff")


def power_on(scene: Scene) -> None:
    """It has power again, and is up: its engine answers, and SSH does."""
    host = scene.notes.pop("off", None)
    if host is None:
        return
    assert isinstance(scene.stage, OnLab | OnSlurm)
    scene.stage.power_on(host)
    if isinstance(scene.stage, OnSlurm):
        return
    lab = scene.stage.lab

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

    What a host could not send goes only with --run. One that was cut off may hold on to its broken line for a moment.
    Through Slurm nothing reaches a node when the job is over: attach says where the files of a lost one are, and gc
    leaves them alone.
    """
    waiting = [row for row in scene.document().get("uncollected", ()) if row["host"] == host]
    over = bool(waiting) and scene.stage.name == "slurm"
    wanted = ["--run", scene.run] if any(row.get("incomplete") for row in waiting) else []

    def swept() -> bool:
        scene.play("attach", scene.run)
        assert scene.child is not None
        scene.child.wait(120)
        scene.play("gc", "-i", str(scene.stage.inventory), "--yes", *wanted)
        assert scene.child.wait(120) == 0, scene.text()[-2000:]
        return measuring.look(scene, host) == (("files",) if over else ())

    wait_until(swept, timeout_s=90, what=f"nothing is left on {host}", every_s=2)
    assert not over or "not collected, and slurm job" in scene.text(), scene.text()[-2000:]


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
