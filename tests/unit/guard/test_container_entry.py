"""A command that enters a container: its variables, its directory, and why it could not be started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.container_entry import namespaces
from ddp_play.guard.protocol import INSIDE

if TYPE_CHECKING:
    from pathlib import Path

ENTER = "from ddp_play.guard.main import main; main()"
SHOW = 'echo "$A $B $LD_X $PATH"; pwd'


def enter(
    tmp_path: Path, *words: str, given: dict[str, str] | None = None, **fields: Any
) -> subprocess.CompletedProcess[str]:
    """Start these words in the namespaces of this process, where they are already. `given`: variables of the rank."""
    file = tmp_path / "container.json"
    image = {"A": "image", "B": "image", "PATH": "/usr/bin:/bin"}
    known = {"pid": os.getpid(), "namespaces": namespaces(os.getpid()), "env": image, **fields}
    file.write_text(json.dumps(known))
    return subprocess.run(
        [sys.executable, "-c", ENTER, "enter", str(file), *words],
        env={"PYTHONPATH": ":".join(sys.path), **(given or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_command_has_the_images_variables_and_over_them_its_own(tmp_path: Path) -> None:
    done = enter(tmp_path, str(tmp_path), "sh", "-c", SHOW, given={f"{INSIDE}A": "own", f"{INSIDE}LD_X": "l"})
    assert done.stdout.splitlines() == ["own image l /usr/bin:/bin", str(tmp_path)], done.stderr


def test_what_is_on_the_way_in_adds_no_variable(tmp_path: Path) -> None:
    """A shell adds PWD, bash also SHLVL, OLDPWD and _, and Python LC_CTYPE; the job may set any of them."""
    added = dict.fromkeys(("PWD", "SHLVL", "OLDPWD", "_", "LC_CTYPE"), "host")
    given = {**added, f"{INSIDE}PWD": "own", f"{INSIDE}LC_CTYPE": "own"}
    done = enter(tmp_path, "/", "env", given=given)
    assert sorted(done.stdout.split()) == ["A=image", "B=image", "LC_CTYPE=own", "PATH=/usr/bin:/bin", "PWD=own"]
    assert not enter(tmp_path, "/", "printenv", *added, given=added).stdout


def python_ignores() -> int:
    """Signals that Python ignores as it starts, as a mask of /proc/PID/status."""
    return sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_its_exit_code_is_that_of_the_process(tmp_path: Path) -> None:
    assert enter(tmp_path, "/", "sh", "-c", "exit 9").returncode == 9
    assert enter(tmp_path, "/", "sh", "-c", "kill -9 $$").returncode == -9


def test_it_ignores_no_signal_that_python_does(tmp_path: Path) -> None:
    """Those that this process ignores itself stay so: a shell ignores some in what it starts in the background."""
    done = enter(tmp_path, "/", "sh", "-c", "grep SigIgn /proc/self/status")
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & python_ignores(), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("/no/such", "true"), 126, "the working directory /no/such cannot be used in the container: No such file"),
        (("/", "no-such-program"), 127, "cannot start no-such-program in the container: No such file"),
        (("/", "/etc/passwd"), 126, "cannot start /etc/passwd in the container: Permission denied"),
    ],
)
def test_what_could_not_be_started(tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = enter(tmp_path, *words)
    assert done.returncode == code
    assert done.stderr.startswith(f"ddp-play: {message}")


@pytest.mark.parametrize("taken", [True, False])
def test_a_container_that_has_ended_is_not_entered(tmp_path: Path, taken: bool) -> None:
    """Its pid may belong to another process meanwhile."""
    pid = os.getpid() if taken else 2**22 + 1
    done = enter(tmp_path, "/", "echo", "wrong", pid=pid, namespaces={**namespaces(os.getpid()), "mnt": "mnt:[1]"})
    assert (done.returncode, done.stdout) == (126, "")
    assert "the container of this run has ended" in done.stderr


def test_a_container_whose_namespaces_were_never_known_is_not_entered(tmp_path: Path) -> None:
    done = enter(tmp_path, "/", "echo", "wrong", pid=2**22 + 1, namespaces={})
    assert (done.returncode, done.stdout) == (126, "")
    assert "the container of this run has ended" in done.stderr


def test_a_process_that_is_gone_has_no_namespaces() -> None:
    assert namespaces(2**22 + 1) == {}
    assert namespaces(os.getpid())["user"].startswith("user:[")
