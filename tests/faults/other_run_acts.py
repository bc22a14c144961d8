"""Other runs next to the one of a row: of another controller under the same name, and in the queue behind it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.endings import kill_each
from tests.faults.scene import Scene
from tests.faults.stage import COMMAND, SHARED
from tests.waiting import wait_until

REFUSED_S = 90.0
# How long a waiter that was killed may stay in the queue.
LEAVES_S = 5.0


class OtherController:
    """ddp-play with another state directory, as on another login node."""

    def __init__(self, scene: Scene, name: str) -> None:
        self.scene = scene
        self.home = scene.root / f"home-{name}"
        self.screen = scene.root / f"screen-{name}"

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """A command of this controller; what it prints is in `screen`."""
        with self.screen.open("wb") as screen:
            child = subprocess.Popen(
                [COMMAND, *words],
                cwd=self.scene.root,
                env={**self.scene.stage.environment(), "DDP_PLAY_HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=screen,
                stderr=screen,
                start_new_session=True,
            )
        self.scene.notes.setdefault("others", []).append(child)
        return child

    def play(self, *words: str) -> tuple[int, str]:
        """Exit code and screen of a command."""
        code = self.start(*words).wait(REFUSED_S)
        return code, self.screen.read_text()

    def document(self, run: str) -> dict[str, Any]:
        """run.json of one of its runs; empty before there is one."""
        path = self.home / "runs" / run / "run.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}


def end_others(scene: Scene) -> None:
    """Whatever happened, no command of another controller goes on."""
    for child in scene.notes.get("others", []):
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(10)


def small_job(scene: Scene, script: str, name: str) -> str:
    """A playbook with one rank on each host."""
    variables = {"ddp_job_command": ["sh", "-c", script], "ddp_job_ranks_per_host": 1}
    role = {"role": "ddp.play.ddp_job", "vars": variables}
    path = scene.root / name
    path.write_text(json.dumps([{"hosts": "ranks", "gather_facts": False, "roles": [role]}]))
    return str(path)


def end_training(scene: Scene) -> None:
    """The ranks of the row's run end by themselves."""
    if scene.stage.name != "lab":
        found = f"find {scene.host_dir('h1')}/runs/{scene.run}.*"
    else:
        found = f"find {SHARED}/.ddp-play/{scene.run}.*"
    scene.stage.on("h1", f"for path in $({found} -name victim.py); do touch ${{path%victim.py}}end; done")


# -- one name ----------------------------------------------------------------------------------------
def others_with_this_name_are_refused(scene: Scene) -> None:
    """Other controllers, and on a lab other users, start, stop and sweep a run of the same name."""
    variants: list[tuple[str, ...]] = [(), ("--wait",), ("--wait-at-most", "10s")]
    if scene.stage.name == "lab":
        variants += [("-u", "root"), ("--become",)]
    job = small_job(scene, "echo of the second", "second.yml")
    for at, options in enumerate(variants):
        other = OtherController(scene, str(at))
        where = ("-i", str(scene.stage.inventory))
        code, text = other.play("run", job, *where, "--name", scene.run, *scene.options, *options)
        assert code == 75, (options, text)
        assert f"run {scene.run} of " in text, text
        assert "choose another --name" in text, text
        assert " step " not in text, "it follows nobody else's ranks"
        assert other.document(scene.run)["status"] == "failed"
        for words in (("stop", scene.run), ("gc", *where, "--run", scene.run, "--yes")):
            code, text = other.play(*words)
            assert code == 0, (words, text)
    before = scene.step()
    wait_until(lambda: scene.step() > before, timeout_s=20, what="the first goes on")
    end_training(scene)


def a_waiter_has_the_name_first(scene: Scene) -> None:
    """A run waits behind the row's; another controller's run of the waiter's name comes, then both get their turn."""
    name = scene.notes["waiter"] = f"{scene.run}-w"
    where = ("-i", str(scene.stage.inventory), "--name", name, "--wait", *scene.options)
    first, second = (OtherController(scene, at) for at in ("first", "second"))
    children = []
    for other in (first, second):
        job = small_job(scene, f"echo rank of {other.home.name}; sleep 5", f"{other.home.name}.yml")
        children.append(other.start("run", job, *where))
        wait_until(_waits_or_ended(other, name, children[-1]), timeout_s=REFUSED_S, what=f"{other.home.name} waits")
    end_training(scene)
    codes = [child.wait(REFUSED_S) for child in children]
    texts = [other.screen.read_text() for other in (first, second)]
    assert codes[0] == 0, texts[0]
    assert codes[1] in (0, 75), texts[1]
    for at, text in enumerate(texts):
        assert f"rank of {(first, second)[1 - at].home.name}" not in text, "nobody joins the other's ranks"
        assert (f"rank of {(first, second)[at].home.name}" in text) == (codes[at] == 0), text
    scene.notes["remark"] = f"the second ended with {codes[1]}"


def _waits_or_ended(other: OtherController, name: str, child: subprocess.Popen[bytes]) -> Any:
    return lambda: other.document(name).get("status") == "waiting" or child.poll() is not None


# -- the queue ---------------------------------------------------------------------------------------
def kill_the_waiter_ahead(scene: Scene) -> None:
    """Two runs wait behind the row's; the first of them is killed with all that it has on its controller."""
    others, children = {}, {}
    for name in ("ahead", "behind"):
        others[name] = OtherController(scene, name)
        job = small_job(scene, "echo begun", f"{name}.yml")
        run = f"{scene.run}-{name}"
        children[name] = others[name].start(
            "run", job, "-i", str(scene.stage.inventory), "--name", run, "--wait", *scene.options
        )
        wait_until(_waits_or_ended(others[name], run, children[name]), timeout_s=REFUSED_S, what=f"{name} waits")
    assert _ahead_of(scene, others["behind"]) == [scene.run + "-ahead"]
    kill_each(_pids_of(others["ahead"].home))
    killed = time.monotonic()
    wait_until(lambda: not _ahead_of(scene, others["behind"]), timeout_s=LEAVES_S * 3, what="the dead waiter left")
    scene.notes["remark"] = f"left the queue after {time.monotonic() - killed:.1f} s"
    end_training(scene)
    assert children["behind"].wait(REFUSED_S) == 0, others["behind"].screen.read_text()
    assert "begun" in others["behind"].screen.read_text()


def _ahead_of(scene: Scene, other: OtherController) -> list[str]:
    """The waiting runs ahead of a controller's run, as its journal has them."""
    path = other.home / "runs" / f"{scene.run}-{other.home.name.removeprefix('home-')}" / "events.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    waiting = [row for row in rows if row["type"] == "waiting" and "ahead" in row]
    return [row["run"] for row in waiting[-1]["ahead"]] if waiting else []


def _pids_of(home: Path) -> list[int]:
    """Every process of a controller; nothing that plays a host."""
    mark, found = f"DDP_PLAY_HOME={home}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment, words = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark in environment.split(b"\0") and b"\0guard\0" not in words:
            found.append(int(entry.name))
    return found
