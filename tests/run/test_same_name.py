"""Two controllers, one run name: the second is refused, and nothing of the first is touched."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play, alive
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

RUNS = "echo begun; while [ ! -e {end} ]; do sleep 0.1; done; echo ended"


def other_controller(play: Play, name: str = "elsewhere") -> Play:
    """The same hosts, driven from another state directory, as from another login node."""
    cwd = play.cwd / name
    cwd.mkdir()
    return dataclasses.replace(play, cwd=cwd, home=play.cwd.parent / f"home-{name}")


def shared_inventory(play: Play) -> Path:
    """This machine as one host with two slots and a shared directory."""
    (play.cwd / "shared").mkdir()
    variables = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "ddp_python": "{{ ansible_playbook_python }}",
        "ddp_shared_dir": str(play.cwd / "shared"),
        "ddp_slots": 2,
    }
    return play.write("hosts.yml", json.dumps({"ranks": {"hosts": {"here": variables}}}))


def begin_first(play: Play, inventory: Path, ranks: int) -> list[int]:
    """Start the first run in the background; returns its ranks' pids."""
    play.write("src/data.txt", "kept")
    command = ["sh", "-c", "echo weights > checkpoint; " + RUNS.format(end=play.cwd / "end")]
    known = {"source": str(play.cwd / "src"), "samples": 0}  # a test compares all files on the host
    job = play.job({"command": command, **known, "ranks_per_host": ranks})
    started = play("run", job, "-i", inventory, "-d", "--name", "night")
    assert started.code == 0, started.err
    logs = [play.home / "runs" / "night" / "logs" / f"rank-{rank}.log" for rank in range(ranks)]
    wait_until(lambda: all(log.exists() and log.read_bytes() == b"begun\n" for log in logs), what="its ranks")
    # The guard writes its state a moment after it has started the ranks.
    wait_until(lambda: all(pid is not None for pid in known_pids(play, ranks)), what="their pids in the guard's state")
    return known_pids(play, ranks)


def known_pids(play: Play, ranks: int) -> list[int]:
    """Pids of the ranks by the guard's state on disk; None for a rank that it has not started yet."""
    return [json.loads(state.read_text())["ranks"][str(rank)]["pid"] for rank in range(ranks) for state in states(play)]


def states(play: Play) -> list[Path]:
    """The state files of all attempts on the host."""
    return sorted((play.host_dir / "runs").glob("*/*/state.json"))


def finish_first(play: Play) -> None:
    """Let the first run end by itself; it must succeed and hand back what it wrote."""
    (play.cwd / "end").touch()
    done = play("attach", "night")
    assert done.code == 0, done.err
    assert play.document(play.home / "runs" / "night")["status"] == "succeeded"
    kept = [path.read_text() for path in (play.home / "runs" / "night" / "artifacts").rglob("checkpoint")]
    assert kept == ["weights\n"]
    assert play.left_on_host() == []
    assert list((play.cwd / "shared").glob(".ddp-play/*")) == []


@pytest.mark.parametrize(
    ("ranks", "options"),
    [(1, ()), (2, ()), (2, ("--wait",)), (2, ("--wait-at-most", "20s"))],
    ids=["slots-free", "slots-taken", "wait", "wait-at-most"],
)
def test_a_second_controller_with_the_same_name_is_refused(play: Play, ranks: int, options: tuple[str, ...]) -> None:
    inventory = shared_inventory(play)
    pids = begin_first(play, inventory, ranks)
    before = sorted(play.left_on_host()), sorted(map(str, (play.cwd / "shared").rglob("*")))
    second = other_controller(play)
    job = second.job({"command": ["echo", "of the second"], "ranks_per_host": 1})
    refused = second("run", job, "-i", inventory, "--name", "night", *options)
    assert refused.code == 75, refused.err
    assert "run night" in refused.err
    assert "choose another --name" in refused.err
    assert "begun" not in refused.out + refused.err, "it follows nobody else's ranks"
    assert second.document(second.home / "runs" / "night")["status"] == "failed"
    assert all(alive(pid) for pid in pids)
    assert (sorted(play.left_on_host()), sorted(map(str, (play.cwd / "shared").rglob("*")))) == before
    stopped = second("stop", "night")
    assert stopped.code == 0, stopped.err
    assert all(alive(pid) for pid in pids), "stop of the refused run ends its own run only"
    finish_first(play)


def test_gc_of_a_refused_run_leaves_its_namesake_alone(play: Play) -> None:
    inventory = shared_inventory(play)
    pids = begin_first(play, inventory, 1)
    second = other_controller(play)
    job = second.job({"command": ["true"], "ranks_per_host": 1})
    assert second("run", job, "-i", inventory, "--name", "night").code == 75
    swept = second("gc", "-i", inventory, "--run", "night", "--yes")
    assert swept.code == 0, swept.err
    assert all(alive(pid) for pid in pids)
    finish_first(play)


def test_two_controllers_that_start_at_once_under_one_name(play: Play) -> None:
    """Whoever comes second, nobody joins the other, and both say truly what became of them."""
    plays = [other_controller(play, name) for name in ("one", "two")]
    children = []
    for at, each in enumerate(plays):
        command = ["sh", "-c", f"echo rank of {at}; sleep 2"]
        children.append(
            each.start("run", each.job({"command": command, "ranks_per_host": 1}), "-i", LOCAL, "--name", "night")
        )
    ends = []
    for at, child in enumerate(children):
        out, err = child.communicate(timeout=90)
        ends.append(child.returncode)
        assert child.returncode in (0, 75), err
        assert f"rank of {1 - at}" not in out
        assert (f"rank of {at}" in out) == (child.returncode == 0)
    assert 0 in ends
    assert play.left_on_host() == []
