"""Modules as programs, each in a process of its own: a fork of one that has imported Ansible's part of them.

The import takes ten times as long as the module; a new Python for each of a hundred calls took 25 s of CPU time.
`python module_process.py` is the process that forks: a request a line on stdin, an exit status a line on stdout.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

STREAMS = ("stdin", "stdout", "stderr")


class Forker:
    """The controller's end of that process, which starts with the first module and ends with `close`."""

    def __init__(self) -> None:
        """Nothing is started yet."""
        self._process: subprocess.Popen[str] | None = None

    def answer(self, module: str | None, arguments: dict[str, Any], *, path: str = "") -> dict[str, Any]:
        """What a module prints, given these arguments; programs are looked for in `path` first."""
        with tempfile.TemporaryDirectory() as name:
            files = {stream: str(Path(name) / stream) for stream in STREAMS}
            Path(files["stdin"]).write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
            search = os.pathsep.join(filter(None, (path, os.environ["PATH"])))
            request = {"module": str(module), "files": files, "cwd": str(Path.cwd())}
            self._do({**request, "env": {**os.environ, "PATH": search}, "umask": _umask()})
            printed = Path(files["stdout"]).read_text()
            assert printed, Path(files["stderr"]).read_text()
            answer: dict[str, Any] = json.loads(printed)
            return answer

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate(timeout=30)
            self._process = None

    def _do(self, request: dict[str, Any]) -> None:
        if self._process is None:
            command = [sys.executable, __file__]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], 60)[0], "the module does not end"
        assert self._process.stdout.readline(), "the process that forks has ended"


def _umask() -> int:
    now = os.umask(0o022)
    os.umask(now)
    return now


def _serve() -> None:
    import ansible.module_utils.basic  # noqa: F401, PLC0415 - only here: what each fork has loaded already

    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            _become(json.loads(line))
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _become(request: dict[str, Any]) -> None:
    """Run the module as `python MODULE` does, and end."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    os.umask(request["umask"])
    for number, stream in enumerate(STREAMS):
        mode = os.O_WRONLY | os.O_CREAT if number else os.O_RDONLY
        opened = os.open(request["files"][stream], mode, 0o600)
        os.dup2(opened, number)
        os.close(opened)
        setattr(sys, stream, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115 - a number
    sys.argv[:] = [request["module"]]
    sys.path[0] = str(Path(request["module"]).parent)
    status = 0
    try:
        runpy.run_path(request["module"], run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - as Python does at the end of a program
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


FORKER = Forker()

if __name__ == "__main__":
    _serve()
