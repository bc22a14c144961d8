"""ddp-play as its users start it: the installed command, real processes, state in a directory of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.endings import kill_each

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
LOCAL = ROOT / "inventory" / "local"


@dataclass
class Done:
    """A finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its standard output as JSON."""
        return json.loads(self.out)


@dataclass
class Play:
    """The command with its own state directories and a working directory."""

    cwd: Path
    home: Path
    host_dir: Path
    environment: dict[str, str] = field(default_factory=dict)
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    def env(self) -> dict[str, str]:
        """What the command sees: nothing of the developer's own state."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.cwd),
            "LANG": "C.UTF-8",
            "DDP_PLAY_HOME": str(self.home),
            "DDP_PLAY_HOST_DIR": str(self.host_dir),
            "COLUMNS": "160",
            "DDP_PLAY_REPORT": "no",
            **self.environment,
        }

    def start(
        self, *arguments: str | Path, program: str = "ddp-play", stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[str]:
        """Start it and return at once."""
        child = subprocess.Popen(
            [str(Path(sys.executable).parent / program), *map(str, arguments)],
            cwd=self.cwd,
            env=self.env(),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.children.append(child)
        return child

    def __call__(self, *arguments: str | Path, timeout_s: float = 180, program: str = "ddp-play") -> Done:
        """Run it to its end."""
        child = self.start(*arguments, program=program)
        try:
            out, err = child.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            raise AssertionError(f"{arguments} did not end within {timeout_s} s\n{out}\n{err}") from None
        return Done(child.returncode, out, err)

    def write(self, name: str, text: str) -> Path:
        """A file in the working directory."""
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def job(self, variables: dict[str, Any], *, before: str = "", after: str = "") -> Path:
        """A playbook with one job; JSON is YAML."""
        play: dict[str, Any] = {
            "hosts": "ranks",
            "gather_facts": False,
            "roles": [{"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{k}": v for k, v in variables.items()}}],
        }
        if before:
            play["pre_tasks"] = [_touch(before)]
        if after:
            play["post_tasks"] = [_touch(after)]
        return self.write("job.yml", json.dumps([play], indent=1, ensure_ascii=False))

    def runs(self) -> list[Path]:
        """Run directories, newest last."""
        return sorted((self.home / "runs").glob("*"), key=lambda path: path.stat().st_mtime)

    def newest(self) -> Path:
        """The newest run directory."""
        return max((self.home / "runs").glob("*"), key=lambda path: path.stat().st_ctime)

    def document(self, run: Path | None = None) -> dict[str, Any]:
        """A run's run.json."""
        value: dict[str, Any] = json.loads(((run or self.newest()) / "run.json").read_text())
        return value

    def place(self, run: str, attempt: int = 1, host: str = "localhost") -> Path:
        """The run's directory on the host; it must be there."""
        (found,) = (self.host_dir / "runs").glob(f"{run}.*/{attempt}.{host}")
        return found

    def left_on_host(self) -> list[str]:
        """What is still there of any run, in the place that stands for the host."""
        walk = os.walk(self.host_dir / "runs")  # passes over what is being removed
        return sorted(str(Path(where, name)) for where, names, files in walk for name in (*names, *files))


def _touch(path: str) -> dict[str, Any]:
    return {
        "name": f"Touch {Path(path).name}",
        "ansible.builtin.file": {"path": path, "state": "touch", "mode": "0600"},
        "tags": ["always"],
    }


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """ddp-play in an empty directory; afterwards no process of it may be left."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    made = Play(cwd, tmp_path / "home", tmp_path / "host")
    yield made
    for child in made.children:
        if child.poll() is None:
            child.kill()
            child.wait()
        for stream in (child.stdout, child.stderr):
            if stream is not None:
                stream.close()
    kill_each(living(str(tmp_path)))


def alive(pid: int) -> bool:
    """Does this process run? One that ended is dead, also where nobody has asked for its exit code."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def living(word: str) -> list[int]:
    """Processes (not ourselves) with this word in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in text and alive(int(entry.name)):
            found.append(int(entry.name))
    return found
