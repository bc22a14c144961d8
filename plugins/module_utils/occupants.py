"""Occupants of a host that a restart or reboot would disturb: containers, runs, an engine that does not answer.

All roles use this definition of a busy host. Every container and run counts, whoever started it and with which engine.
An engine that does not answer counts too, because its containers are unknown.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.ddp.play.plugins.module_utils import other_containers

ENGINE_TIMEOUT_S = 10
MAX_NAMED = 5
# Containers of the roles' own units, which start them again after the engine; ending them disturbs nobody.
# The names are theirs alone: a unit removes any other container of its name before it starts.
OUR_SERVICES = ("ddp-dcgm-exporter",)
# A container's processes continue under these while no engine runs (live-restore).
SHIM = "containerd-shim"
STEP = "slurmstepd"  # one for each step of a Slurm job
PS = ["docker", "ps", "--no-trunc", "--format", "{{.Names}}\t{{.Image}}"]
OURS = ["docker", "ps", "--no-trunc", "--quiet", *("--filter=name=^/%s$" % name for name in OUR_SERVICES)]
# A guard runs as a unit of the system, a unit of a user, or a plain process, always with this command line.
GUARDS = ["pgrep", "--full", "--list-full", " -I -S [^ ]+ guard "]
PROCESSES = ["ps", "-A", "-o", "comm="]
# A controller's process on the host holds this file of the attempt open while it prepares, follows or collects it.
CHANNELS = (b"\0ddp-play\0channel\0", b".pyz\0channel\0")  # in its command line, also of an earlier version
CHANNEL_LOCK = "/channel.lock"
DELETED = " (deleted)"
PROC = Path("/proc")
NOT_RUNNING = ("Cannot connect to the Docker daemon", "Is the docker daemon running")

Answer = Tuple[int, str, str]


def ask(argv: Sequence[str], timeout_s: float) -> Answer:
    """rc 127 if the program does not exist, 124 if it hung."""
    env = dict(os.environ, LC_ALL="C", LANGUAGE="C")
    env["PATH"] = env.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, env=env, check=False
        )
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        return 127, "", str(error)
    except subprocess.TimeoutExpired:
        return 124, "", "no answer within %d s" % timeout_s
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace").strip()


def engine_state(answer: Answer) -> str:
    """One of running, silent, stopped, absent, unknown, from the result of `docker ps`."""
    rc, _, err = answer
    named = {0: "running", 124: "silent", 127: "absent"}.get(rc, "")
    return named or ("stopped" if any(text in err for text in NOT_RUNNING) else "unknown")


def parse_containers(text: str) -> List[Dict[str, str]]:
    """Running containers by name and image, without those of the roles' own units."""
    rows = [line.partition("\t")[::2] for line in text.splitlines() if line.strip()]
    return [{"name": name, "image": image} for name, image in rows if name not in OUR_SERVICES]


def our_containers(timeout_s: float = ENGINE_TIMEOUT_S) -> List[str]:
    """Ids of the running containers of the roles' own units; none if the engine does not say."""
    rc, out, _ = ask(OURS, timeout_s)
    return out.split() if rc == 0 else []


def parse_guards(text: str) -> List[str]:
    """The run's directory of each guard: the last argument of its command line."""
    return sorted({line.split()[-1] for line in text.splitlines() if line.strip()})


def attended_attempts(procfs: Path) -> List[str]:
    """Directories of attempts that a controller prepares, follows or collects, or has just cleaned up for a restart."""
    found = set()
    for folder in procfs.glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            if not any(words in command for words in CHANNELS):
                continue
            paths = [str(fd.readlink()) for fd in (folder / "fd").iterdir()]
        except OSError:  # it has ended, or only root may read it
            continue
        plain = [path[: -len(DELETED)] if path.endswith(DELETED) else path for path in paths]
        found |= {path[: -len(CHANNEL_LOCK)] for path in plain if path.endswith(CHANNEL_LOCK)}
    return sorted(found)


def shortened(names: List[str]) -> str:
    """At most five names, and the number of further ones."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (" and %d more" % more if more > 0 else "")


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 container, 2 containers."""
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")


def reasons(
    engine: str,
    error: str,
    containers: List[Dict[str, str]],
    shims: int,
    guards: List[str],
    *,
    attended: Sequence[str] = (),
    others: Sequence[other_containers.Container] = (),
    steps: int = 0,
) -> List[str]:
    """Why the host is busy, each reason a clause with its subject; empty if it is not busy."""
    found = []
    if containers:
        names = ["%(name)s (%(image)s)" % row for row in containers]
        found.append("%s running: %s" % (counted(len(names), "container"), shortened(names)))
    if engine == "silent":
        found.append("the Docker engine does not answer (%s)" % error)
    if engine == "unknown":
        found.append("the Docker engine does not list its containers (%s)" % (error.splitlines() or ["no message"])[0])
    if engine != "running" and shims:
        found.append("%s running while the engine does not answer" % counted(shims, "container"))
    if guards:
        found.append("ranks running: %s" % shortened(guards))
    places = [place for place in attended if place not in guards]
    if places:
        found.append("runs being prepared, collected or restarted: %s" % shortened(places))
    for name in sorted({row.engine for row in others}):
        rows = [str(row) for row in others if row.engine == name]
        found.append("%s of %s running: %s" % (counted(len(rows), "container"), name, shortened(rows)))
    return found + (["%s of Slurm jobs running" % counted(steps, "step")] if steps else [])


def read(timeout_s: float = ENGINE_TIMEOUT_S) -> Dict[str, Any]:
    """Read the host's engine, containers and runs, and the reasons why it is busy (empty: it is not)."""
    answer = ask(PS, timeout_s)
    engine = engine_state(answer)
    containers = parse_containers(answer[1]) if engine == "running" else []
    guards = parse_guards(ask(GUARDS, timeout_s)[1])
    processes = ask(PROCESSES, timeout_s)[1].splitlines()
    shims, steps = (sum(line.startswith(name) for line in processes) for name in (SHIM, STEP))
    attended, others = attended_attempts(PROC), other_containers.read(PROC)
    return {
        "engine": engine,
        "containers": containers,
        "guards": guards,
        "reasons": reasons(engine, answer[2], containers, shims, guards, attended=attended, others=others, steps=steps),
    }
