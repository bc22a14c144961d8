"""Container of a node that pyxis makes: a step of the Slurm job, which lasts as long as the guard of its ranks.

Its first process reads a pipe that the guard holds open, so it also ends with a guard that is killed. pyxis then
removes the container.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, NoReturn, Sequence

from .container_entry import namespaces
from .protocol import ENROOT_CONFIG, ENTER, NVIDIA, PROXIES
from .refusal import Refused
from .run_directory import write_json
from .withdrawal import Withdrawn, withdrawn_refusal

if TYPE_CHECKING:
    from .run_directory import HostRun

LOOK_S = 0.05
END_S = 10.0  # for a step that was told to end
# Slurm's variables are about the step of this channel, and would be options of another.
OF_SLURM = ("SLURM", "SRUN_", "SBATCH_", "PMI", "PYXIS_", "ENROOT_")
KEPT = ("SLURM_CONF", ENROOT_CONFIG)
# Of the step and of a login, and not of the image.
OF_THE_STEP = (*OF_SLURM, "DDP_PLAY_")
GPUS_OF_THE_STEP = ("CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
OF_A_LOGIN = ("HOME", "LOGNAME", "OLDPWD", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "USER", "_")
# Slurm signals all steps at the end of a job, while the ranks still write checkpoints. Opened for both ends first, the
# pipe gives an end of file, and no wait for a writer, if its holder was killed meanwhile. A site's prolog of a task, or
# an entrypoint, may print before.
HOLD = (
    'trap "" TERM INT HUP USR1 USR2 QUIT; fifo=%s; [ -p "$fifo" ] || exit 1; '
    'exec 3<> "$fifo" 4< "$fifo" 3>&-; echo; echo ddp-play $$; read -r _ <&4'
)
HELD = re.compile(rb"^ddp-play (\d+)\n", re.MULTILINE)
# Words of pyxis, or of what it has started -> what helps.
HINTS = (
    (r"unrecognized option|invalid option", "install pyxis and enroot on all nodes (HOSTS), and restart slurmd there"),
    (r"source path does not exist", "make it on HOSTS, or correct ddp_job_mounts"),
    (r"chdir", "ddp_job_workdir is a directory of the image, or one in ddp_job_mounts"),
    (r"[Nn]o space left", "make room for enroot on HOSTS (ENROOT_DATA_PATH, ENROOT_TEMP_PATH in enroot.conf)"),
    (r"failed to create container filesystem", "correct ddp_job_image: a .sqsh file that HOSTS can read, on a "
     "directory that all share or on each node"),
    (r"error code: 40[13]|[Uu]nauthorized|denied", "correct ddp_job_image, or put the registry's login into "
     "~/.config/enroot/.credentials; enroot import makes a .sqsh file, which can be named by its path"),
    (r"failed to import", "correct ddp_job_image, or make a .sqsh file with enroot import and name its path"),
    (r"failed to execute", "the image needs sh, with its libraries"),
)  # fmt: skip
HEAD = re.compile(r"(?:slurmstepd[^:]*: |srun: )?(?:error: )?pyxis: (?P<words>.*)")
NOISE = re.compile(r"child \d+ failed|printing enroot log file|container was not started successfully by another")
LEVEL = re.compile(r"^\[(?:ERROR|WARN|INFO)\]\s*")
LOGGED = "    "  # before a line of enroot's log


@contextlib.contextmanager
def held(place: HostRun, spec: Dict[str, Any], withdrawn: Withdrawn = lambda: False) -> "Iterator[Sequence[int]]":
    """Make the container, and the script that enters it; nothing for another runtime than pyxis.

    Yields what the guard has to inherit: while it is open in any process, the container stays. Raises Refused with
    what pyxis says.
    """
    if spec["runtime"] != "pyxis":
        yield ()
        return
    fifo = str(place.container_alive)
    os.mkfifo(fifo, 0o600)
    alive = os.open(fifo, os.O_RDWR | os.O_CLOEXEC)  # does not wait for a reader, unlike O_WRONLY
    try:
        pid = _started(place, _step(spec, fifo), float(spec["pull_timeout_s"]), withdrawn)
        _describe(place, pid)
        yield (alive,)
    finally:
        os.close(alive)


def _step(spec: Dict[str, Any], fifo: str) -> List[str]:
    """The command that makes the container on this node."""
    job, node = os.environ.get("SLURM_JOB_ID"), os.environ.get("SLURMD_NODENAME")
    if not (job and node):
        raise Refused(
            "pyxis makes containers in a Slurm job, and this is none",
            kind="usage",
            hint="without become (-b): ranks have the user of the job",
        )
    options = (spec.get("agent") or spec["ranks"][0])["step_options"]
    common = ["--overlap", "--jobid=" + job, "--nodes=1", "--ntasks=1", "--nodelist=" + node, "--mem=0", "--mpi=none"]
    hold = HOLD % shlex.quote(fifo)
    return ["srun", *common, "--chdir=/", "--quiet", "--unbuffered", *options, "/bin/sh", "-c", hold]


def _started(place: HostRun, words: List[str], limit_s: float, withdrawn: Withdrawn) -> int:
    """Start the step and return the pid of its process in the container. Raises Refused."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(OF_SLURM)}
    output, errors = place.container_output, place.container_errors
    with open(str(output), "wb") as out, open(str(errors), "wb") as err:
        child = subprocess.Popen(
            words, env={**kept, **NVIDIA}, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + limit_s
    while True:
        code, held_by = child.poll(), HELD.search(output.read_bytes())
        if code is not None:
            _refuse(errors.read_text(errors="replace"), code)
        if held_by:
            _leave(child)
            return int(held_by[1])
        if withdrawn():
            _give_up(child)
            raise withdrawn_refusal()
        if time.monotonic() > until:
            _give_up(child)
            raise Refused("pyxis did not make the container within %g s" % limit_s)
        time.sleep(LOOK_S)


def _leave(child: "subprocess.Popen[bytes]") -> None:
    """End srun and its second process, and not the step: another signal, such as Slurm's at the end of a job, would."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _give_up(child: "subprocess.Popen[bytes]") -> None:
    """Have srun end its step."""
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        _leave(child)


def _refuse(text: str, code: int) -> NoReturn:
    why = reason(text) or "exit code %d" % code
    said = "\n".join(line for line in text.splitlines() if "[INFO]" not in line)
    hint = next((words for pattern, words in HINTS if re.search(pattern, said)), "")
    raise Refused("pyxis cannot make the container: %s" % why, hint=hint)


def reason(text: str) -> str:
    """Why pyxis failed, from what srun printed: its first error, and the last of enroot's log that is one."""
    heads: List[str] = []
    logged: List[str] = []
    for line in text.splitlines():
        found = HEAD.match(line)
        if found and "error: " in line and not NOISE.search(found["words"]):
            (logged if found["words"].startswith(LOGGED) else heads).append(found["words"].strip())
    if not heads:
        others = [line.split("error: ", 1)[-1] for line in text.splitlines() if line.strip()]
        return others[0][:400] if others else ""
    errors = [line for line in logged if line.startswith("[ERROR]")] or [
        line for line in logged if line and not line.startswith("[") and "failed" in heads[0]
    ]
    return ": ".join([heads[0], *(LEVEL.sub("", line) for line in errors[-1:])])[:400]


def _describe(place: HostRun, pid: int) -> None:
    """Write what `container_entry` needs, and the shell script that starts it, for ranks and for `ddp-play exec`.

    Raises Refused if the container has ended.
    """
    found = namespaces(pid)
    try:
        env = image_env(Path("/proc/%d/environ" % pid))
    except OSError:
        found = {}
    if not found:
        why = reason(place.container_errors.read_text(errors="replace"))
        raise Refused("the container that pyxis made has ended already, or cannot be entered%s" % (why and ": " + why))
    write_json(place.container, {"pid": pid, "namespaces": found, "env": env})
    words = [sys.executable, "-I", "-S", sys.argv[0], "enter", str(place.container)]
    (place.root / ENTER).write_text('exec %s "$@"\n' % " ".join(map(shlex.quote, words)))


def image_env(environ: Path) -> Dict[str, str]:
    """Variables of the image, from those of the first process in the container."""
    given = {name: os.environ.get(name) for name in PROXIES}  # of a login, unless the image has another value
    rows = (os.fsdecode(row).partition("=") for row in environ.read_bytes().split(b"\0") if b"=" in row)
    others = (*OF_A_LOGIN, *GPUS_OF_THE_STEP)
    found = {name: value for name, _, value in rows if name not in others and not name.startswith(OF_THE_STEP)}
    return {name: value for name, value in found.items() if given.get(name) != value}
