"""The screen on a pty: how much it writes, on old terminals and without colour, and that it gives the terminal back."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pexpect
import pytest

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import RunPaths, write_json
from tests.unit.build import hosts, plan
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist]

ROOT = Path(__file__).resolve().parents[2]
RUNNING = {"state": "running", "ok": False, "stopped": False, "how": ""}
NUM_HOSTS, PER_HOST = 8, 8
MAX_BYTES_PER_S = 4000
START_S, MEASURED_S = 4.0, 6.0
SECOND_SCREEN, BACK = "\x1b[?1049h", "\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")


@dataclass
class Written:
    """A bundle whose ranks print ten lines per second each."""

    paths: RunPaths
    over: threading.Event = field(default_factory=threading.Event)

    def write(self) -> None:
        """Append lines that differ in most characters until the test is over."""
        logs = [self.paths.log(rank).open("ab", buffering=0) for rank in range(NUM_HOSTS * PER_HOST)]
        while not self.over.wait(0.1):
            for log in logs:
                log.write(os.urandom(60).hex().encode() + b"\n")
        for log in logs:
            log.close()


@pytest.fixture
def bundle(tmp_path: Path) -> Iterator[RunPaths]:
    """64 ranks that run."""
    paths = RunPaths(tmp_path / "home" / "runs" / "calm-otter-1")
    paths.create()
    write_json(paths.run, {"id": "calm-otter-1", "created": time.time(), "status": "running"})
    write_json(paths.plan, plan(*hosts(NUM_HOSTS), ranks_per_host=PER_HOST).to_json())
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    journal.emit("phase", phase="running")
    for rank in range(NUM_HOSTS * PER_HOST):
        journal.emit("rank", rank=rank, host=f"h{rank // PER_HOST + 1}", **RUNNING)
    written = Written(paths)
    thread = threading.Thread(target=written.write)
    thread.start()
    yield paths
    written.over.set()
    thread.join()


def view(
    bundle: RunPaths,
    *arguments: str,
    size: tuple[int, int] = (40, 120),
    term: str = "xterm-256color",
    environment: dict[str, str] | None = None,
) -> pexpect.spawn:
    """The screen on a pty of this size (lines, columns)."""
    shown = {"TERM": term, "LANG": "C.UTF-8", "PATH": os.environ["PATH"], "DDP_PLAY_HOME": str(bundle.root.parents[1])}
    words = ["-m", "tests.run.view_bundle", bundle.run_id, *arguments]
    child = pexpect.spawn(
        sys.executable, words, cwd=str(ROOT), env={**shown, **(environment or {})}, dimensions=size, timeout=30
    )
    child.expect("64 ranks on 8 hosts")
    return child


def read_for(child: pexpect.spawn, seconds: float) -> bytes:
    """What it writes in this time."""
    found, until = b"", time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        try:
            found += child.read_nonblocking(1 << 16, timeout=left)
        except pexpect.TIMEOUT:
            continue
        except pexpect.EOF:
            break
    return found


def end_of(child: pexpect.spawn) -> str:
    """All that it still writes; it is over then."""
    child.expect(pexpect.EOF)
    text: bytes = child.before
    child.close()
    return text.decode("utf-8", "replace")


def test_a_slow_line_is_enough(bundle: RunPaths) -> None:
    """64 ranks print ten lines a second, and every line is another: at most 4 kB/s on average."""
    child = view(bundle, size=(60, 200))
    read_for(child, START_S)
    num_bytes = len(read_for(child, MEASURED_S))
    child.kill(signal.SIGKILL)
    end_of(child)
    assert 200 < num_bytes < MEASURED_S * MAX_BYTES_PER_S


@pytest.mark.parametrize(
    ("term", "environment", "colours"),
    [("xterm-256color", {}, True), ("xterm-256color", {"NO_COLOR": "1"}, False), ("vt100", {}, False)],
)
def test_colours_only_where_they_are_wanted(
    bundle: RunPaths, term: str, environment: dict[str, str], colours: bool
) -> None:
    child = view(bundle, term=term, environment={"COLUMNS": "160", **environment})
    text = read_for(child, 1.5).decode("utf-8", "replace")
    child.kill(signal.SIGTERM)
    text += end_of(child)
    assert "running" in text
    assert bool(COLOUR.search(text)) is colours


def test_sigterm_gives_the_terminal_back(bundle: RunPaths) -> None:
    child = view(bundle)
    assert not child.getecho()
    child.kill(signal.SIGTERM)
    child.expect(re.escape(BACK))
    wait_until(child.getecho, timeout_s=30)
    end_of(child)
    assert child.signalstatus == signal.SIGTERM


def test_ctrl_c_gives_the_terminal_back(bundle: RunPaths) -> None:
    child = view(bundle)
    child.sendintr()
    assert "KeyboardInterrupt" in end_of(child).partition(BACK)[2]


def test_a_defect_gives_the_terminal_back_before_its_message(bundle: RunPaths) -> None:
    text = end_of(view(bundle, "3"))
    assert "broken on purpose" in text.partition(BACK)[2]


def test_a_smaller_terminal_while_it_runs(bundle: RunPaths) -> None:
    child = view(bundle, environment={"COLUMNS": "160", "LINES": "50"})
    read_for(child, 1.0)
    child.setwinsize(12, 60)
    child.expect(" leave")
    text = read_for(child, 1.0).decode("utf-8", "replace")
    child.send("q")
    child.expect("leave[?] d: detach")
    child.send("d")
    end_of(child)
    assert child.exitstatus == 0
    places = [int(row) for row in re.findall(r"\x1b\[(\d+);\d+H", text)]
    assert max(places, default=1) <= 12


def test_a_terminal_that_is_gone_costs_nothing(bundle: RunPaths) -> None:
    """As after `nohup`: nobody reads, and reading ends at once each time."""
    child = view(bundle, environment={"IGNORE_HANGUP": "1"})
    pid = child.pid
    os.close(child.child_fd)
    child.closed = True
    used_s = cpu_s(pid)
    time.sleep(2.0)
    assert cpu_s(pid) - used_s < 0.7
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def cpu_s(pid: int) -> float:
    """CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("environment", [{}, {"LANG": "C", "NO_COLOR": "1"}], ids=["utf-8", "C"])
def test_a_storm_of_sizes(bundle: RunPaths, environment: dict[str, str]) -> None:
    """A person drags the corner of a window, down to a terminal that has no room for anything."""
    child = view(bundle, environment=environment)
    sizes = ((5, 20), (1, 1), (100, 300), (2, 200), (40, 3), (12, 60))
    for number in range(300):
        child.setwinsize(*sizes[number % len(sizes)])
        read_for(child, 0.01)
    child.setwinsize(24, 80)
    child.expect(" leave")
    child.send("e")
    child.expect(" back")
    child.send("qq")
    child.expect("leave[?] d: detach")
    child.send("d")
    text = end_of(child)
    assert child.exitstatus == 0, text
    assert "Traceback" not in text
