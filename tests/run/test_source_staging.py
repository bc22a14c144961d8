"""The source of a run on its way to a host: what a second launch sends, and what becomes of a damaged store."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.dist, pytest.mark.runner]

NUM_FILES = 3000
SHOW = """
import pathlib
print("word", pathlib.Path("d1/f1.py").read_text()[:5], len(list(pathlib.Path().rglob("f*.py"))))
"""
FAIL_ONCE = """
import os, pathlib, time
print("word", pathlib.Path("d1/f1.py").read_text())
mark = pathlib.Path(os.environ["MARK"])
if not mark.exists():
    mark.touch()
    time.sleep(3)
    raise SystemExit(1)
"""


@pytest.fixture
def tree(play: Play) -> Path:
    """A source of 6 MB in small files, too large to be sent whole."""
    for number in range(NUM_FILES):
        path = play.cwd / "code" / f"d{number % 20}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(str(number * 7919 + i * i) for i in range(300)))
    (play.cwd / "code" / "d1" / "f1.py").write_text("first")
    (play.cwd / "code" / "show.py").write_text(SHOW)
    return play.cwd / "code"


def launch(play: Play, **more: Any) -> dict[str, Any]:
    """Run the script; the run's document."""
    job = play.job({"source": "code", "command": "python show.py", "ranks_per_host": 1, **more})
    done = play("run", job, "-i", LOCAL)
    assert done.code == 0, done.err
    return {**play.document(), "out": done.out}


def objects(play: Play) -> list[Path]:
    return [path for path in (play.host_dir / "objects").rglob("*") if path.is_file()]


def whole(path: Path) -> bool:
    """Whether a file of the store has the content of its name."""
    return hashlib.sha256(path.read_bytes()).hexdigest() == path.name


def finished(play: Play) -> list[Path]:
    """Pieces under their own names; one that is being written has another."""
    return [path for path in objects(play) if not path.name.startswith(".")]


def channel_of(play: Play) -> int | None:
    """The process on the host that prepares a run: it holds the file of its attempt."""
    for lock in (play.host_dir / "runs").glob("*/*/channel.lock"):
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it ends meanwhile
                if any(_target(fd) == lock for fd in (process / "fd").iterdir()):
                    return int(process.name)
    return None


def _target(fd: Path) -> Path | None:
    try:
        return fd.readlink()
    except OSError:
        return None


def halted(pid: int, begun: Callable[[], bool]) -> bool:
    """Whether it has begun; if so, the process stays stopped, so that it does not end meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    if found := begun():
        return found
    os.kill(pid, signal.SIGCONT)
    return False


def kill_midway(play: Play, begun: Callable[[], bool]) -> None:
    """Launch a run, and end the process on its host with SIGKILL as soon as something has begun there.

    The run fails and says what may be left; `ddp-play gc` removes it.
    """
    job = play.job({"source": "code", "command": "python show.py", "ranks_per_host": 1})
    child, pid = play.start("run", job, "-i", LOCAL), None
    deadline = time.monotonic() + 60
    while not (pid and halted(pid, begun)):
        assert time.monotonic() < deadline
        pid = pid or channel_of(play)
    os.kill(pid, signal.SIGKILL)
    _, err = child.communicate(timeout=90)
    assert child.returncode == 69, err
    assert "localhost: cleanup not confirmed; ddp-play gc -i" in err


def test_a_second_launch_sends_the_edit_only(play: Play, tree: Path) -> None:
    first = launch(play)
    assert f"word first {NUM_FILES}" in first["out"]
    (tree / "d1" / "f1.py").write_text("other")
    second = launch(play)
    assert f"word other {NUM_FILES}" in second["out"]
    assert first["source_bytes_sent"] > 1_000_000
    assert second["source_bytes_sent"] < 200_000
    assert second["source"]["sha256"] != first["source"]["sha256"]
    third = launch(play)
    assert third["source_bytes_sent"] < 20_000
    assert {path.stat().st_mode & 0o777 for path in objects(play)} == {0o600}
    assert (play.host_dir / "objects").stat().st_mode & 0o777 == 0o700


def test_a_damaged_piece_is_sent_again(play: Play, tree: Path) -> None:
    """A rank may run as the user who has the store."""
    launch(play)
    damaged = objects(play)
    for path in damaged:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    second = launch(play)
    assert f"word first {NUM_FILES}" in second["out"]
    assert second["source_bytes_sent"] > 1_000_000
    assert launch(play)["source_bytes_sent"] < 20_000


def test_two_runs_at_once_share_the_store(play: Play, tree: Path) -> None:
    job = play.job({"source": "code", "command": "python show.py", "ranks_per_host": 1})
    children = [play.start("run", job, "-i", LOCAL, "--name", f"both-{number}") for number in (1, 2)]
    for child in children:
        out, err = child.communicate(timeout=90)
        assert child.returncode == 0, err
        assert f"word first {NUM_FILES}" in out


def test_a_restart_has_the_source_of_the_start(play: Play, tree: Path) -> None:
    (tree / "show.py").write_text(FAIL_ONCE)
    mark = play.cwd / "mark"
    wanted = {
        "source": "code",
        "command": "python show.py",
        "ranks_per_host": 1,
        "restarts": 1,
        "restart_exit_codes": [1],
    }
    child = play.start("run", play.job({**wanted, "env": {"MARK": str(mark)}}), "-i", LOCAL)
    wait_until(mark.exists)
    (tree / "d1" / "f1.py").write_text("edited meanwhile")
    out, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    assert out.count("word first") == 2, out
    assert play.document()["attempt"] == 2


def test_gc_names_what_is_kept_and_removes_it_on_request(play: Play, tree: Path) -> None:
    launch(play)
    kept = play("gc", "-i", LOCAL, "--json").json["sources_bytes"]
    assert kept == {"localhost": sum(path.stat().st_size for path in objects(play))}
    assert play("gc", "-i", LOCAL, "--yes").code == 0
    assert objects(play)
    assert play("gc", "-i", LOCAL, "--sources", "--yes").code == 0
    assert objects(play) == []
    assert launch(play)["source_bytes_sent"] > 1_000_000


@pytest.mark.long
def test_a_host_process_that_is_killed_while_it_keeps_pieces(play: Play, tree: Path) -> None:
    for number in range(40):
        (tree / f"weights{number}").write_bytes(os.urandom(1 << 20))
    kill_midway(play, lambda: bool(objects(play)))
    assert all(map(whole, finished(play)))
    unfinished = play.host_dir / "objects" / "00" / f".{'0' * 64}.{'1' * 16}"
    unfinished.parent.mkdir(exist_ok=True)
    unfinished.write_bytes(b"a part of a piece")
    os.utime(unfinished, (1, 1))
    following = launch(play)
    assert f"word first {NUM_FILES}" in following["out"]
    assert following["source_bytes_sent"] > 1 << 20, "the first launch had not sent all"
    assert all(map(whole, finished(play)))
    assert not unfinished.exists()
    assert launch(play)["source_bytes_sent"] < 20_000
    assert play("gc", "-i", LOCAL, "--yes").code == 0
    assert play.left_on_host() == []


def test_a_host_process_that_is_killed_while_it_unpacks(play: Play, tree: Path) -> None:
    """A directory without its mark is the source of no run."""
    files: list[Path] = []

    def begun() -> bool:
        files[:] = (play.host_dir / "runs").glob("*/1.localhost/src/d*/*")
        return bool(files)

    kill_midway(play, begun)
    attempt = files[0].parents[2]
    assert 0 < len(list(attempt.glob("src/d*/*"))) < NUM_FILES
    assert list(attempt.glob(".complete-*")) == []
    assert f"word first {NUM_FILES}" in launch(play)["out"]
    assert play("gc", "-i", LOCAL, "--yes").code == 0
    assert play.left_on_host() == []
