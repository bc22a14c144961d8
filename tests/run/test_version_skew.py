"""Two login nodes with different versions of ddp-play and one home: real commands of both meet in one run.

The other version is a copy of this checkout with changed sources: a later one has another protocol number; the previous
one has no numbers and reaches its guards by files only, as commits before the number did.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.protocol import PROTOCOL
from tests.endings import kill_each
from tests.run.conftest import LOCAL, ROOT, Done, Play, alive, living
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

COPIED = ("src/ddp_play", "plugins", "roles/ddp_job", "templates", "playbooks", "inventory/local", "meta")
RANK = "echo weights > checkpoint; echo begun; while [ ! -e {end} ]; do sleep 0.1; done"
NUMBER = ("src/ddp_play/guard/protocol.py", f"\nPROTOCOL = {PROTOCOL}\n", f"\nPROTOCOL = {PROTOCOL + 1}\n")
LATER = (NUMBER,)
PREVIOUS = (
    (
        "src/ddp_play/bundle/format_version.py",
        'return {"protocol": PROTOCOL, "version": __version__}',
        "return {}",
    ),
    ("src/ddp_play/run/host_spec.py", '"protocol": PROTOCOL,', ""),
    ("src/ddp_play/guard/daemon.py", '"protocol": PROTOCOL,', ""),
    ("src/ddp_play/guard/daemon.py", "self.control = ControlServer(self.place.root, self.orders)", "raise OSError"),
    ("src/ddp_play/guard/guard_link.py", "client = ControlClient(self.place.root, [0, os.geteuid()])", "raise OSError"),
)
# Fields of a route in channels.json that the version without a number reads; another one was an error.
ROUTE = {"host", "argv", "command", "become_prompt", "become_success"}


@dataclass
class OtherVersion(Play):
    """The command of another version, for the same runs and hosts."""

    def __call__(self, *arguments: str | Path, timeout_s: float = 90, program: str = "python") -> Done:
        """Run it to its end."""
        return Play.__call__(self, "-m", "ddp_play", *arguments, timeout_s=timeout_s, program=program)


def other_version(play: Play, tmp_path: Path, changes: tuple[tuple[str, str, str], ...]) -> OtherVersion:
    """A copy of this checkout with these changes (file, old text, new text)."""
    copy = tmp_path / "collections" / "ansible_collections" / "ddp" / "play"
    for folder in COPIED:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("galaxy.yml", "pyproject.toml"):
        shutil.copy(ROOT / name, copy / name)
    for name, old, new in changes:
        text = (copy / name).read_text()
        assert old in text, name
        (copy / name).write_text(text.replace(old, new))
    found = {"PYTHONPATH": str(copy / "src"), "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections")}
    fields = {field.name: getattr(play, field.name) for field in dataclasses.fields(play)}
    return OtherVersion(**{**fields, "environment": {**play.environment, **found}})


def begin_orphan(play: Play) -> list[int]:
    """Start run night, end its supervisor and return the pids of its ranks."""
    play.write("src/data.txt", "kept")
    command = ["sh", "-c", RANK.format(end=play.cwd / "end")]
    known = {"source": str(play.cwd / "src"), "artifacts": ["checkpoint"], "samples": 0}  # a test compares all files
    job = play.job({"command": command, **known})
    started = play("run", job, "-i", LOCAL, "-d", "--name", "night")
    assert started.code == 0, started.err
    run = play.home / "runs" / "night"
    logs = [run / "logs" / f"rank-{rank}.log" for rank in range(2)]
    wait_until(lambda: all(log.exists() and log.read_bytes() == b"begun\n" for log in logs), timeout_s=60, what="ranks")
    state: dict[str, Any] = {}

    def written() -> bool:
        """A rank may say that it begins before its guard has written who it is."""
        state.update(json.loads((play.place("night") / "state.json").read_text()))
        return all(row["pid"] for row in state["ranks"].values())

    wait_until(written, timeout_s=60, what="pids of the ranks")
    kill_each(set(living(str(run))) - {state["guard_pid"]})
    return [row["pid"] for row in state["ranks"].values()]


def end_and_collect(by: Play, pids: list[int]) -> None:
    """`by` takes the run over, stops it and collects what it wrote; nothing remains."""
    stopped = by("stop", "night")
    assert stopped.code == 0, stopped.err
    assert by.document(by.home / "runs" / "night")["status"] == "stopped", stopped.err
    assert not any(alive(pid) for pid in pids)
    kept = [path.read_text() for path in (by.home / "runs" / "night" / "artifacts").rglob("checkpoint")]
    assert kept == ["weights\n"]
    assert by.left_on_host() == []


def test_a_run_of_the_previous_version_is_listed_stopped_and_collected(play: Play, tmp_path: Path) -> None:
    pids = begin_orphan(other_version(play, tmp_path, PREVIOUS))
    assert "protocol" not in play.document()
    (row,) = play("ps", "-i", LOCAL, "--json").json["on_hosts"]
    assert (row["guard_alive"], row["unknown"]) == (True, "")
    end_and_collect(play, pids)


def refuse_to_take_over_what_a_later_version_restarted(play: Play, pids: list[int]) -> None:
    """The bundle is ours, the attempt on the host is not, as if the disk of the later version's bundle was full."""
    spec = play.place("night") / "spec.json"
    content = spec.read_text()
    spec.write_text(json.dumps({**json.loads(content), "protocol": PROTOCOL + 1, "version": "9.9"}))
    before = play.document()
    refused = play("attach", "night")
    assert refused.code == 69, refused.err
    assert "ddp-play 9.9" in refused.err
    assert play.document() == before, "the run is not marked as failed"
    assert all(alive(pid) for pid in pids)
    spec.write_text(content)


def test_a_later_version_that_speaks_our_protocol_takes_the_run_over(play: Play, tmp_path: Path) -> None:
    pids = begin_orphan(play)
    (route,) = json.loads((play.newest() / "channels.json").read_text())["routes"]
    assert set(route) == ROUTE, "the previous version can read it"
    assert play.document()["protocol"] == PROTOCOL
    refuse_to_take_over_what_a_later_version_restarted(play, pids)
    end_and_collect(other_version(play, tmp_path, LATER), pids)
    assert play.document()["protocol"] == PROTOCOL + 1, "the version that wrote it last"


def test_a_run_of_a_later_version_is_named_and_left_alone(play: Play, tmp_path: Path) -> None:
    later = other_version(play, tmp_path, LATER)
    pids = begin_orphan(later)
    run = play.home / "runs" / "night"
    before = (run / "run.json").read_bytes(), sorted(play.left_on_host())
    refused = play("attach", "night")
    assert refused.code == 64, refused.err
    assert f"with protocol {PROTOCOL + 1}" in refused.err.replace("\n", " ")
    listed = play("ps", "-i", LOCAL, "--json").json
    assert (listed["runs"][0]["status"], listed["on_hosts"][0]["phase"]) == ("unknown", "unknown")
    swept = play("gc", "-i", LOCAL, "--yes")
    assert f"protocol {PROTOCOL + 1}" in swept.out.replace("\n", " "), swept.err
    second = dataclasses.replace(play, home=tmp_path / "home-elsewhere")
    taken = second("run", second.job({"command": ["true"], "ranks_per_host": 1}), "-i", LOCAL, "--name", "night")
    assert taken.code == 75, taken.err
    assert ((run / "run.json").read_bytes(), sorted(play.left_on_host())) == before
    assert all(alive(pid) for pid in pids)
    end_and_collect(later, pids)
