"""Start of a command inside the container that pyxis has made: this process enters its namespaces and becomes it.

The process stays the same, so its pid, its signals and its exit code are those of a process of the host.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Dict, List, NoReturn

from .protocol import INSIDE
from .run_directory import read_json

# In this order: the user namespace gives the right to enter the others, and after that of mounts /proc is another. Not
# that of cgroups: the paths in /proc/self/cgroup stay those below /sys/fs/cgroup, which is the host's.
NAMESPACES = ("user", "ipc", "uts", "net", "mnt")
NOT_EXECUTABLE, NOT_FOUND = 126, 127
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # and then by what it becomes


def main(file: str, workdir: str, command: List[str]) -> None:
    """Become the command, in the container that the file describes; else end with 126 or 127, and say why on stderr."""
    known = read_json(Path(file))
    there = namespaces(int(known["pid"])) if known else {}
    if not there or known is None or there != known["namespaces"]:
        _end("the container of this run has ended: its step of the Slurm job is over", NOT_EXECUTABLE)
    own = {name[len(INSIDE) :]: value for name, value in os.environ.items() if name.startswith(INSIDE)}
    env = {**known["env"], **own}
    try:
        _enter(known)
    except OSError as error:
        _end("cannot enter the container of this run: %s" % error.strerror, NOT_EXECUTABLE)
    try:
        os.chdir(workdir)
    except OSError as error:
        _end("the working directory %s cannot be used in the container: %s" % (workdir, error.strerror), NOT_EXECUTABLE)
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, env)  # noqa: S606 - a rank, as the job says it
    except OSError as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        _end("cannot start %s in the container: %s" % (command[0], error.strerror), code)


def namespaces(pid: int) -> Dict[str, str]:
    """The namespaces of a process, those of NAMESPACES; empty if it has ended, or one of them cannot be read."""
    try:
        return {name: os.readlink("/proc/%d/ns/%s" % (pid, name)) for name in NAMESPACES}
    except OSError:
        return {}


def _enter(known: Dict[str, Any]) -> None:
    """Enter the namespaces that differ from those of this process. Raises OSError."""
    import ctypes  # which a channel does not need

    own = namespaces(os.getpid())
    wanted = [name for name in NAMESPACES if known["namespaces"][name] != own[name]]
    handles = [os.open("/proc/%d/ns/%s" % (known["pid"], name), os.O_RDONLY | os.O_CLOEXEC) for name in wanted]
    setns = ctypes.CDLL(None, use_errno=True).setns  # os.setns is newer than the Python of hosts
    for handle in handles:
        if setns(handle, 0):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _end(why: str, code: int) -> NoReturn:
    sys.stderr.write("ddp-play: %s\n" % why)
    sys.stderr.flush()
    os._exit(code)
