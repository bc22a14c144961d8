"""Secrets of a job, and where they are looked for while it runs and after each of its ends."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import subprocess
import threading
from pathlib import Path

from ansible.parsing.vault import VaultLib, VaultSecret

from tests.faults import acts, controller_acts, hosts
from tests.faults.scene import Scene
from tests.faults.slurm_stage import OnSlurm
from tests.faults.stage import COMMAND, HOSTS, SHARED
from tests.waiting import wait_until

# Of `ddp_job_secrets`, of a file that Ansible's vault encrypts, of a variable whose name says so.
NAMED, VAULTED, TELLING = "correct-horse-7531", "battery-staple-8642", "trombone-glacier-9753"
SECRETS = (NAMED, VAULTED, TELLING)
ENV = {"OMP_NUM_THREADS": "1", "AS_IT_IS": "{{ vaulted }}", "MODEL_API_KEY": TELLING}
SAMPLE_S = 0.1
# Everything that a host of a lab writes; here the machine has other users, so only what is ours.
PLACES = {
    "lab": f"/run /tmp /var/tmp /var/log /var/lib/ddp-play /home /root /dev/shm {SHARED}/.ddp-play",
    "here": "/run /dev/shm/ddp-play-*/{run}.* {host_dir}",
    "slurm": "/run /dev/shm/ddp-play-*/{run}.* {host_dir} {cluster}",
}


def plant(scene: Scene) -> None:
    """A vault with a value, and a watch over all command lines and environments from now on."""
    (scene.root / "pw").write_text("open sesame\n")
    vault = VaultLib([("default", VaultSecret(b"open sesame"))])
    (scene.root / "vault.yml").write_bytes(vault.encrypt(json.dumps({"vaulted": VAULTED})))
    scene.notes["vars_files"] = ["vault.yml"]
    scene.options += ("--vault-password-file", str(scene.root / "pw"))
    watch = Watch()
    scene.notes["watch"] = watch
    watch.start()


def plant_and_take_port(scene: Scene) -> None:
    """The same, and another program has the only port that the job allows."""
    hosts.take_port(scene)
    plant(scene)


def end(scene: Scene) -> None:
    """Whatever happened, the watch is over and the port is free."""
    end_watch(scene)
    if "listener" in scene.notes:
        hosts.give_port(scene)


class Watch(threading.Thread):
    """Samples all processes of this machine and its containers; `seen` has those that show a secret."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.seen: set[str] = set()
        self.samples = 0

    def run(self) -> None:
        while not self.over.wait(SAMPLE_S):
            self.samples += 1
            for entry in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    self._look(entry)

    def _look(self, entry: Path) -> None:
        words = (entry / "cmdline").read_bytes()
        environment = (entry / "environ").read_bytes()
        if b"DDP_PLAY_RUN_ID=" in environment:
            environment = b""  # a rank: these values are what it is given
        for secret in SECRETS:
            if secret.encode() in words or secret.encode() in environment:
                self.seen.add(f"{secret}: {words.decode(errors='replace')}")


def end_watch(scene: Scene) -> None:
    """No further sample."""
    watch: Watch = scene.notes["watch"]
    watch.over.set()
    watch.join(30)


# -- while it runs -----------------------------------------------------------------------------------
def look_on_hosts(scene: Scene) -> None:
    """Every file but the one in memory that ranks read, the engine's records, the journal."""
    assert _found(scene) == []
    path = scene.stage.on("h1", f"cat /dev/shm/ddp-play-*/{scene.run}.*/TOKEN")
    assert path.startswith(NAMED), "it did arrive"


def look_and_kill_rank(scene: Scene) -> None:
    """A failure of a rank."""
    look_on_hosts(scene)
    acts.kill_rank(scene)


def look_and_crash(scene: Scene) -> None:
    """Guard of h2 and controller are killed; then somebody takes over."""
    look_on_hosts(scene)
    acts.kill_guard(scene)
    controller_acts.kill_controller(scene)


def _found(scene: Scene, *, in_memory: bool = False) -> list[str]:
    """Files, records of the engine and lines of the journal, on all hosts, that have a secret."""
    cluster = scene.stage.cluster.directory if isinstance(scene.stage, OnSlurm) else ""
    host_dir = scene.root / "host" if cluster else scene.host_dir("h1")
    places = PLACES[scene.stage.name].format(run=scene.run, host_dir=host_dir, cluster=cluster)
    words = [f"{secret[:3]}[{secret[3]}]{secret[4:]}" for secret in SECRETS]  # the search does not find itself
    pattern = shlex.quote("|".join(words))
    no_memory = "" if in_memory else f"| grep -v '^/dev/shm/ddp-play-[^/]*/{scene.run}[.]'"
    script = f"""
    find {places} -xdev -type f -size -64M 2>/dev/null | xargs -r grep -lasE {pattern} 2>/dev/null {no_memory}
    ids=$(command -v docker >/dev/null && docker ps -aq --filter label=ddp-play.run={scene.run} 2>/dev/null)
    test -z "$ids" || docker inspect $ids | grep -E {pattern}
    command -v journalctl >/dev/null && journalctl --no-pager 2>/dev/null | grep -E {pattern}
    true"""
    names = HOSTS if scene.stage.name == "lab" else HOSTS[:1]
    return [f"{host}: {line}" for host in names for line in scene.stage.on(host, script).splitlines()]


# -- afterwards --------------------------------------------------------------------------------------
def look_everywhere(scene: Scene) -> None:
    """The bundle and all state of the controller, its messages, what verbs say, processes seen, hosts."""
    end_watch(scene)
    watch: Watch = scene.notes["watch"]
    assert watch.samples > 10
    assert watch.seen == set()
    told = scene.text() + _told(scene)
    assert not [secret for secret in SECRETS if secret in told]
    for path in (scene.stage.home / "runs" / scene.run).rglob("*"):
        if path.is_file():
            assert not [secret for secret in SECRETS if secret.encode() in path.read_bytes()], path
    wait_until(lambda: _found(scene, in_memory=True) == [], timeout_s=30, what="no secret is left on a host")


def look_everywhere_and_sweep(scene: Scene) -> None:
    """The same once gc has removed what the crash left."""
    words = ("gc", "-i", str(scene.stage.inventory), "--run", scene.run, "--yes")
    scene.play(*words)
    assert scene.child is not None
    assert scene.child.wait(120) == 0, scene.text()[-2000:]
    look_everywhere(scene)


def _told(scene: Scene) -> str:
    """What the verbs that show a run, a plan or results print."""
    playbook = str(scene.root / "train.yml")
    plan = ("plan", playbook, "-i", str(scene.stage.inventory), *scene.options)
    verbs = (plan, (*plan, "--json"), ("ps", "--json"), ("results", scene.run), ("results", scene.run, "--json"))
    told = ""
    for words in verbs:
        done = subprocess.run(
            [str(COMMAND), *words],
            cwd=scene.root,
            env={**os.environ, **scene.stage.environment()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        told += done.stdout + done.stderr
    assert "a secret" in told, "the plan tells which values are hidden"
    return told
