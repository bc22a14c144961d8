"""Analysis of torch's flight recorder dumps by torch's own fr_trace, after all ranks have ended.

A dump is a pickle that a rank wrote, and reading a pickle runs code. It is read as the user of the ranks, never as
root, with the Python of the ranks or in the job's image (with Docker without network), and with limits of time,
memory and output.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import docker_socket, processes
from .apptainer_preparation import image_word
from .protocol import MAX_DUMPS_BYTES
from .refusal import Refused
from .tree_removal import remove
from .untrusted_paths import Below, locate, new_file

if TYPE_CHECKING:
    from .run_directory import HostRun

TIME_S = 60.0
REMOVE_S = 10.0
MAX_OUTPUT_BYTES, MAX_TEXT_BYTES = 1 << 20, 64 << 10
MEMORY = 4 << 30
# In place of root: nobody on every Linux distribution.
NOBODY = 65534
PREFIX = "rank_"
MODULE = "torch.distributed.flight_recorder.fr_trace"
# What Python needs to find the torch of the ranks.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV")
IN_CONTAINER = 'exec "$(command -v python || command -v python3)" -m %s . -p %s' % (MODULE, PREFIX)


class Dumps:
    """The dumps that the controller sends on one channel, in a new directory.

    One that exists may belong to the ranks' user since an analysis, and hold links.
    """

    def __init__(self) -> None:
        self._rank: Optional[int] = None
        self._file: Optional[IO[bytes]] = None
        self._num_bytes = 0

    def receive(self, place: HostRun, rank: int, piece: bytes) -> None:
        """Append a piece of a rank's dump; all pieces of a rank come one after the other.

        Raises Refused if all dumps together are too large, OSError.
        """
        where = locate(place.flight_recorder)
        if self._rank is None:
            with contextlib.suppress(FileNotFoundError):  # of a connection that was cut
                remove(where)
            place.flight_recorder.mkdir(mode=0o700)
        self._num_bytes += len(piece)
        if self._num_bytes > MAX_DUMPS_BYTES:
            raise Refused("the flight recorder's dumps are larger than %d MiB" % (MAX_DUMPS_BYTES >> 20))
        if self._file is None or rank != self._rank:
            self.close()
            self._rank, self._file = rank, new_file(Below(where.base, (*where.parts, PREFIX + str(rank))))
        self._file.write(piece)

    def analyse(self, place: HostRun, spec: Dict[str, Any]) -> str:
        """Beginning of what fr_trace prints about the dumps of this channel. Raises Refused, OSError."""
        if self._rank is None:
            raise Refused("no dump of the flight recorder was sent on this connection")
        self.close()
        self._rank, self._num_bytes = None, 0
        return _analyse(place, spec)

    def close(self) -> None:
        """Close the file of the last dump."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _analyse(place: HostRun, spec: Dict[str, Any]) -> str:
    uid, gid = _reader(spec)
    unit = spec.get("agent") or spec["ranks"][0]
    if unit.get("num_image_words"):
        return _run_with_apptainer(unit, place.flight_recorder, (uid, gid))
    if spec.get("runtime") == "pyxis":
        raise Refused("the container of the ranks has ended, and with it the Python that could read the dumps")
    _hand_over(place.flight_recorder, uid, gid)
    if spec.get("runtime") == "docker":
        name = "ddp-%s-a%s-fr" % (place.run_key, spec["attempt"])
        return _run(
            _container(spec, place.flight_recorder, name, (uid, gid)),
            dict(os.environ),
            place.flight_recorder,
            name=name,
        )
    env = spec["ranks"][0]["env"]
    python = shutil.which("python", path=env.get("PATH")) or shutil.which("python3", path=env.get("PATH"))
    if python is None:
        raise Refused("no Python in the PATH of the ranks")
    kept = {name: env[name] for name in ENVIRONMENT if name in env}
    kept.update(HOME="/nonexistent", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    return _run([python, "-m", MODULE, ".", "-p", PREFIX], kept, place.flight_recorder, user=(uid, gid))


def _apptainer(unit: Dict[str, Any], where: Path) -> List[str]:
    """The analysis in the image of the ranks, without what else its options give them."""
    args = [unit["argv"][0], "--quiet", "--nocolor", "exec", "--containall", "--no-home"]
    args += ["--mount", "type=bind,source=%s,destination=/dumps,ro" % where, "--pwd", "/dumps"]
    return [*args, image_word(unit), "sh", "-c", "export OMP_NUM_THREADS=1 CUDA_VISIBLE_DEVICES=; " + IN_CONTAINER]


def _run_with_apptainer(unit: Dict[str, Any], where: Path, user: Tuple[int, int]) -> str:
    """Beginning of the output in the ranks' image. Its user has to find the dumps by their path, so they are copied."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="ddp-play-") as scratch:
        copy = Path(shutil.copytree(str(where), scratch + "/dumps", symlinks=True))
        Path(scratch).chmod(0o711)
        _hand_over(copy, *user)
        return _run(_apptainer(unit, copy), {"PATH": unit["env"].get("PATH", os.defpath)}, Path("/"), user=user)


def _reader(spec: Dict[str, Any]) -> Tuple[int, int]:
    """(uid, gid) to read as: those of the ranks, nobody in place of root."""
    user = spec.get("user") or {"uid": os.geteuid(), "gid": os.getegid()}
    return (int(user["uid"]), int(user["gid"])) if user["uid"] else (NOBODY, NOBODY)


def _hand_over(where: Path, uid: int, gid: int) -> None:
    """Let this user read the dumps; only root can give files away, so others open them to all."""
    paths = [where, *where.iterdir()]
    for path in paths:
        if os.geteuid() == 0:
            os.chown(str(path), uid, gid, follow_symlinks=False)
        elif uid != os.geteuid():
            path.chmod(0o755 if path == where else 0o644)


def _container(spec: Dict[str, Any], where: Path, name: str, user: Tuple[int, int]) -> List[str]:
    create = spec["ranks"][0].get("create") or (spec.get("agent") or {}).get("create") or []
    labels = [word for at, word in enumerate(create) if at and create[at - 1] == "--label"]
    args = ["docker", "run", "--rm", "--name", name]
    for label in labels:
        args += ["--label", label]
    args += ["--pull", "never", "--network", "none", "--read-only", "--tmpfs", "/tmp", "--init"]
    args += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "256", "--cpus", "2"]
    args += ["--memory", str(MEMORY), "--memory-swap", str(MEMORY), "--user", "%d:%d" % user]
    args += ["--env", "HOME=/tmp", "--env", "OMP_NUM_THREADS=1", "--env", "CUDA_VISIBLE_DEVICES="]
    args += ["--mount", "type=bind,source=%s,target=/dumps,readonly" % where, "--workdir", "/dumps"]
    return [*args, "--entrypoint", "sh", spec["image"], "-c", IN_CONTAINER]


def _run(
    argv: List[str],
    env: Dict[str, str],
    cwd: Path,
    *,
    user: Optional[Tuple[int, int]] = None,
    name: str = "",
) -> str:
    """Beginning of the output of a command, which and whose children are killed after TIME_S."""
    import tempfile

    as_user = user if os.geteuid() == 0 else None
    options: Dict[str, Any] = {"user": as_user[0], "group": as_user[1], "extra_groups": []} if as_user else {}
    before = set(processes.children(os.getpid()))
    processes.become_subreaper()
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(
            argv,
            cwd=str(cwd),  # entered before the user is changed, who may not pass the directories above
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=_set_limits if user else _limit_output,  # noqa: PLW1509 - the channel has one thread
            **options,
        )
        try:
            child.wait(TIME_S)
        except subprocess.TimeoutExpired as error:
            raise Refused("the analysis of the flight recorder's dumps did not end in %d s" % TIME_S) from error
        finally:
            _end(before)
            child.wait()
            if name:
                with contextlib.suppress(docker_socket.EngineError):  # `gc` removes what an engine that hangs keeps
                    docker_socket.remove(name, REMOVE_S)
        output.seek(0)
        text = output.read(MAX_TEXT_BYTES).decode("utf-8", "replace")
        return text + ("" if child.returncode == 0 else "fr_trace ended with exit code %s\n" % child.returncode)


def _end(before: "set[int]") -> None:
    """Kill what the command started, also what left its session."""
    for pid in set(processes.children(os.getpid())) - before:
        processes.kill_descendants(pid)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _limit_output() -> None:
    _limit(resource.RLIMIT_FSIZE, MAX_OUTPUT_BYTES)
    _limit(resource.RLIMIT_CORE, 0)


def _set_limits() -> None:
    _limit_output()
    _limit(resource.RLIMIT_DATA, MEMORY)
    _limit(resource.RLIMIT_CPU, int(TIME_S))


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
