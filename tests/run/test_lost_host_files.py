"""Files of a host that was lost during a run: nothing removes them, and `attach` collects them when it is back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.run import ssh_server
from tests.run.conftest import Play
from tests.run.ssh_server import SshServer, User
from tests.run.test_restarts import FAST, begun
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.runner]

# Both ranks run until they are ended; the one on b goes on writing while nobody can reach its host.
COMMAND = (
    "echo attempt 1; n=0; while test $RANK = 1; do n=$((n+1)); echo $n; echo $n > model.txt; sleep 0.2; done; sleep 600"
)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[SshServer]:
    """The host that is lost; the other one is this machine."""
    with ssh_server.running(tmp_path / "b", [User("ops", "/bin/sh")]) as made:
        yield made


def keys(server: SshServer) -> Path:
    """Without this file nobody can log in."""
    return Path(f"/proc/{server.process.pid}/root/home/authorized_keys")


def place(server: SshServer, user: str = "ops") -> Path:
    """The directory of the run's attempt on the host."""
    runs = Path(f"/proc/{server.process.pid}/root/home/{user}/.local/state/ddp-play/host/runs")
    return next(runs.glob("*/1.b"))


def inventory(play: Play, server: SshServer, *, spares: tuple[str, ...] = ()) -> Path:
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "ddp_python": sys.executable}
    named = {"a": here, "b": server.host("ops"), **dict.fromkeys(spares, here)}
    return play.write("hosts.json", json.dumps({"ranks": {"hosts": named}}))


def begin(play: Play, inventory: Path, name: str, **variables: Any) -> subprocess.Popen[str]:
    """A run of this name whose rank 0 has begun. Tests of other processes must not have the name at the same time."""
    (play.cwd / "source").mkdir()
    play.write("source/train.py", "")
    wanted = {"source": str(play.cwd / "source"), "artifacts": ["*.txt"], "command": ["sh", "-c", COMMAND]}
    times: dict[str, Any] = {**FAST, "ranks_per_host": 1, "host_timeout": 6}
    child = play.start("run", play.job({**wanted, **times, **variables}), "-i", inventory, "--name", name)
    wait_until(lambda: begun(play, name, 1, ranks=1) or child.poll() is not None, timeout_s=90, what="rank 0")
    return child


@pytest.mark.long
def test_attach_collects_from_a_host_that_was_lost_and_is_back(play: Play, b: SshServer) -> None:
    """Plain gc removed them, and nothing could collect them."""
    hosts = inventory(play, b)
    child = begin(play, hosts, "away")
    log = place(b) / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 20, timeout_s=30, what="rank 1")
    away = keys(b).rename(keys(b).with_suffix(".away"))
    assert b.cut() > 0
    _, err = child.communicate(timeout=90)
    assert child.returncode == 69, err
    run = play.home / "runs" / "away"
    ended = play.document(run)
    assert ended["uncollected"] == [{"attempt": 1, "host": "b"}]
    assert "ddp-play attach away collects it" in ended["left_behind"]["b"][0]
    wait_until(lambda: json.loads((place(b) / "state.json").read_text())["phase"] == "ended", what="the lease's end")

    tried = play("attach", "away")
    assert tried.code == 69
    assert "b: files of attempt 1 are not collected" in tried.err
    assert play.document(run) == ended

    away.rename(keys(b))
    whole, model = log.read_bytes(), (place(b) / "src" / "model.txt").read_bytes()
    assert len((run / "logs" / "rank-1.log").read_bytes()) < len(whole)
    swept = play("gc", "-i", hosts, "--yes")
    assert "ddp-play attach away collects them" in swept.out, swept.out + swept.err
    assert log.exists()

    done = play("attach", "away")
    assert done.code == 69, done.err
    assert "b: files of attempt 1 are in the bundle" in done.err
    assert (run / "logs" / "rank-1.log").read_bytes() == whole
    assert (run / "artifacts" / "b" / "model.txt").read_bytes() == model
    after = play.document(run)
    assert (after["uncollected"], after["missing"], after["left_behind"]) == ([], [], {})
    assert after["verdict"] == ended["verdict"]
    assert after["ranks"][1]["log_bytes"] == len(whole)
    assert b.left_behind("ops") == []


def test_a_host_that_is_back_before_a_restart_keeps_the_end_of_its_logs(play: Play, b: SshServer) -> None:
    """It was cleaned at once, and all that its ranks had written while nobody could reach it was lost."""
    hosts = inventory(play, b, spares=("c",))
    command = ["sh", "-c", f"test -e {play.cwd}/lost && exit 0; {COMMAND}"]
    child = begin(play, hosts, "back", command=command, restarts=1, hosts=2, spares=["c"], lease=60)
    log = place(b) / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 20, timeout_s=30, what="rank 1")
    away = keys(b).rename(keys(b).with_suffix(".away"))
    assert b.cut() > 0
    (play.cwd / "lost").touch()
    run = play.home / "runs" / "back"
    before = log.stat().st_size
    wait_until(lambda: play.document(run)["status"] == "waiting", timeout_s=60, what="the wait for b")
    away.rename(keys(b))
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    ended = play.document(run)
    assert (ended["attempt"], ended["hosts"], ended["left_behind"]) == (2, ["a", "c"], {}), err
    lines = (run / "attempts" / "1" / "logs" / "rank-1.log").read_text().splitlines()
    assert lines == ["attempt 1", *map(str, range(1, len(lines)))]
    assert sum(len(line) + 1 for line in lines) > before
    model = int((run / "attempts" / "1" / "artifacts" / "b" / "model.txt").read_text())
    assert model in (len(lines) - 1, len(lines) - 2)
    assert json.loads((run / "attempts" / "1" / "outcome.json").read_text())["missing"] == []
    assert b.left_behind("ops") == []
