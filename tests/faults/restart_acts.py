"""Faults between the attempts of a run, and restarts that are refused: each takes the scene of its row."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from tests.faults import acts, controller_acts, hosts
from tests.faults.scene import Scene
from tests.faults.stage import HOSTS, Here
from tests.waiting import wait_until


def all_hosts_share_and_h2_can_be_cut_off(scene: Scene) -> None:
    """A shared directory, and a Python for h2 that does not start while there is a file `cut`."""
    if scene.stage.name == "lab":
        return  # its inventory has a shared directory, and its hosts have networks
    acts.share_directory(scene)
    assert isinstance(scene.stage, Here)
    wrapper, python = scene.root / "python-cut", {host: scene.stage.interpreter(host) for host in HOSTS}
    script = f'test ! -e {scene.root}/cut || exit 255\nFAULT_HOST={scene.run}-h2 exec {python["h2"]} "$@"'
    wrapper.write_text(f"#!/bin/sh\n{script}\n")
    wrapper.chmod(0o755)
    choice = f"{{{{ {python | {'h2': str(wrapper)}}[inventory_hostname] }}}}"
    path = scene.root / "python.json"
    path.write_text(json.dumps({"ansible_python_interpreter": choice}))
    scene.options += ("-e", f"@{path}")


def cut_off_h2(scene: Scene) -> None:
    """The controller cannot reach h2 any more; the guard and the rank there live on."""
    if scene.stage.name == "lab":
        hosts.cut_for_long(scene)
        return
    scene.mark()
    scene.down.add("h2")
    (scene.root / "cut").touch()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            of_h2 = f"FAULT_HOST={scene.run}-h2".encode() in (entry / "environ").read_bytes()
            if of_h2 and b"channel" in (entry / "cmdline").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def mend_h2(scene: Scene) -> None:
    """Whatever happened, h2 can be reached."""
    (scene.root / "cut").unlink(missing_ok=True)
    hosts.mend_network(scene)


def interrupt_while_the_lease_runs(scene: Scene) -> None:
    """h2 is cut off; once the controller waits for its lease, Ctrl-C."""
    cut_off_h2(scene)
    wait_until(lambda: _waits_for(scene, "h2"), timeout_s=60, what="the controller waits for the lease of h2")
    controller_acts.interrupt(scene)


def _waits_for(scene: Scene, host: str) -> bool:
    return any(host in row.get("for_hosts", ()) for row in scene.events("waiting"))


def checkpoint_is_kept_and_named(scene: Scene) -> None:
    """Ranks on h2 may still write, so the shared directory stays; what was written is in the bundle too."""
    document = scene.document()
    size = scene.stage.on("h1", f"stat -c %s {scene.stage.shared}/.ddp-play/{scene.run}.*/src/newest.pt")
    assert int(size) > 1000
    assert "ranks may still write there from h2" in json.dumps(document["left_behind"]), document["left_behind"]
    assert [path.name for path in (scene.bundle / "artifacts").rglob("newest.pt")], document["missing"]
    mend_h2(scene)
    scene.down.discard("h2")
    hosts.sweep(scene, "h2")


def refuse_the_restart(scene: Scene) -> None:
    """A rank is killed once there is a checkpoint; then the next attempt finds its rendezvous file in use."""
    where = f"{scene.stage.shared}/.ddp-play/{scene.run}.{scene.token}"
    wait_until(lambda: scene.stage.on("h1", f"find {where}/src -name newest.pt"), timeout_s=60, what="a checkpoint")
    scene.stage.on("h1", f"touch {where}/rendezvous-2 {where}/rendezvous-3")
    acts.kill_rank(scene)


def checkpoint_is_collected(scene: Scene) -> None:
    """The checkpoint is in the bundle, and nothing is left on the hosts."""
    assert [path.name for path in (scene.bundle / "artifacts").rglob("*.pt")] == ["newest.pt"]
    assert scene.document()["left_behind"] == {}
    assert scene.stage.on("h1", f"ls -d {scene.stage.shared}/.ddp-play/{scene.run}.* 2>/dev/null; true") == ""


def share_a_directory(scene: Scene) -> None:
    """All hosts share one; those of a lab do anyway."""
    if scene.stage.name != "lab":
        acts.share_directory(scene)


def ended_after_two_attempts_without_a_checkpoint(scene: Scene) -> None:
    """Two attempts wrote a checkpoint, two did not; the fifth did not begin."""
    kept = sorted(path.name for path in (scene.bundle / "artifacts").rglob("*.pt"))
    assert kept == ["step-1.pt", "step-2.pt"]
    assert scene.document()["left_behind"] == {}
