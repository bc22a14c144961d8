"""Take-over of a run whose controller died: hosts that do not answer end neither the run nor its record."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.endings import kill_each
from tests.run.conftest import Play, alive, living
from tests.run.test_restarts import begun, fleet, guard_pid, rank_pid, waiting
from tests.run.test_waiting_in_order import supervisor
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.runner]


@contextlib.contextmanager
def unreachable(play: Play, run: str, *, hosts: tuple[str, ...] = ("a", "b")) -> Iterator[None]:
    """Channels to these hosts of a run break, as with a network that is down."""
    path = play.home / "runs" / run / "channels.json"
    before = path.read_text()
    document = json.loads(before)
    for route in (row for row in document["routes"] if row["host"] in hosts):
        route["argv"] = ["sh", "-c", "echo no route to host >&2; exit 255"]
    path.write_text(json.dumps(document))
    yield
    path.write_text(before)


def orphan(play: Play, run: str, **variables: Any) -> list[int]:
    """Start a run, kill its controller, and return the pids of its ranks."""
    play("run", waiting(play, lease="10m", **variables), "-i", fleet(play, "a", "b"), "-d", "--name", run)
    wait_until(lambda: begun(play, run, 1), timeout_s=60, what="both ranks")
    kill_each(set(living(str(play.home / "runs" / run))) - {guard_pid(play, run, host) for host in "ab"})
    return [rank_pid(play, run, 0, "a"), rank_pid(play, run, 1, "b")]


def test_a_take_over_that_reaches_no_host_leaves_the_run_as_it_was(play: Play) -> None:
    """It marked the run as failed while its ranks lived, and no second attach was possible."""
    ranks = orphan(play, "night")
    run = play.home / "runs" / "night"
    before = play.document(run)
    with unreachable(play, "night"):
        done = play("attach", "night")
        assert done.code == 69, done.err
        assert "no channel to\na: no route to host" in done.err
        assert "ddp-play attach tries again" in done.err
        stopped = play("stop", "night", "--now")
        assert stopped.code == 69, stopped.err
    assert play.document(run) == before
    assert all(alive(pid) for pid in ranks)
    assert play("ps", "--json").json["runs"][0]["status"] == "running"
    (run / "control" / "stop-now").unlink()
    done = play("stop", "night", "--now", "--json")
    assert done.json["status"] == play.document(run)["status"] == "stopped"
    assert play("stop", "night", "--json").json["exit_class"] == "stopped"
    assert not any(alive(pid) for pid in ranks)
    assert play.left_on_host() == []


def test_a_supervisor_that_dies_alone_leaves_its_run_to_attach(play: Play) -> None:
    """ansible-playbook outlived it and reported a failure: the run counted as ended, and gc removed what it left."""
    job = waiting(play, lease="10m", restarts=0)
    child = play.start("run", job, "-i", fleet(play, "a", "b"), "--name", "night")
    wait_until(lambda: begun(play, "night", 1), timeout_s=60, what="both ranks")
    run = play.home / "runs" / "night"
    os.kill(supervisor(play, "night"), signal.SIGKILL)
    _, err = child.communicate(timeout=180)
    assert child.returncode == 70, err
    assert "ddp-play attach night takes over" in err
    for words in (("results",), ("results", "--json"), ("logs", "-f")):
        done = play(*words)
        assert done.code == 70
        assert "run night has no supervisor any more; its ranks may go on" in done.err
    assert play("ps", "--json").json["runs"][0]["status"] == "running"
    ranks = [rank_pid(play, "night", 0, "a"), rank_pid(play, "night", 1, "b")]
    kill_each(ranks)
    wait_until(lambda: not any(alive(guard_pid(play, "night", host)) for host in "ab"), what="the end of both guards")
    swept = play("gc", "-i", play.cwd / "fleet.yml", "--yes")
    assert "ddp-play attach night collects them" in swept.out, swept.out + swept.err
    done = play("attach", "night")
    assert done.code == 128 + signal.SIGKILL, done.err
    assert re.search(r"rank (0 on a|1 on b) failed first: signal 9 \(SIGKILL\)", done.err), done.err
    assert play.document(run)["exit_class"] == "rank_failed"
    assert play.left_on_host() == []


def test_a_run_can_be_stopped_though_one_of_its_hosts_never_answers(play: Play) -> None:
    """Neither attach nor stop could end it, its ranks went on holding the other hosts, and rm kept its bundle."""
    on_a, on_b = orphan(play, "headless", host_timeout=5)
    run = play.home / "runs" / "headless"
    with unreachable(play, "headless", hosts=("b",)):
        refused = play("attach", "headless")
        assert refused.code == 69, refused.err
        assert "no channel to\nb: no route to host" in refused.err
        assert "to end the run on the other hosts: ddp-play stop headless" in refused.err
        assert alive(on_a)
        stopped = play("stop", "headless", "--json")
        assert not alive(on_a)
        assert alive(on_b)
    ended = stopped.json
    assert (ended["status"], ended["uncollected"]) == ("stopped", [{"attempt": 1, "host": "b"}]), stopped.err
    assert ended["left_behind"]["b"] == [
        "unknown, also whether its ranks still run: silent for 5 s; when the host is back, ddp-play attach headless "
        "collects it"
    ]
    assert (run / "logs" / "rank-0.log").stat().st_size > 0
    collected = play("attach", "headless")
    assert "b: files of attempt 1 are in the bundle" in collected.err, collected.err
    assert not alive(on_b)
    assert play.left_on_host() == []
