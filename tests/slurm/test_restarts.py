"""Restarts inside a Slurm job: on the same nodes after a failure, on a spare node after a loss."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from tests.slurm.conftest import LONG, PATIENCE_S
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.slurm.conftest import Login


def test_a_restart_stays_in_the_job(login: Login) -> None:
    command = "echo attempt $DDP_PLAY_ATTEMPT; [ $DDP_PLAY_ATTEMPT = 2 ] || [ $RANK != 2 ] || exit 7; sleep 1"
    done = login.play(*login.job(command, restarts=1, restart_exit_codes=[7]), "--name", "again")
    assert done.code == 0, done.err
    assert (login.run_dir("again") / "logs" / "rank-2.log").read_text() == "attempt 2\n"
    assert (login.run_dir("again") / "attempts" / "1" / "logs" / "rank-2.log").read_text() == "attempt 1\n"
    assert login.slurm_job("again")["Restarts"] == "0"


@contextlib.contextmanager
def lost(login: Login, node: str) -> Iterator[None]:
    """The node's daemon and all that runs on it end at once, as after a power failure; afterwards it is idle again."""
    login.cluster.power_off(node, str(login.play.host_dir / node))
    try:
        yield
    finally:
        login.cluster.start_node(node)
        states = ("sinfo", "-h", "-N", "-n", node, "-p", "main", "-o", "%T")

        def is_idle() -> bool:
            state = login.cluster.run(*states, check=False).strip()
            if state.startswith("down"):
                login.cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
            return state == "idle"

        wait_until(is_idle, timeout_s=PATIENCE_S, what=f"{node} idle again", every_s=1.0)


@LONG
def test_a_spare_node_takes_the_place_of_a_lost_one(login: Login) -> None:
    """The job goes on without it."""
    job = login.job("sleep 10", ranks_per_host=1, restarts=1, lease=10, host_timeout=6, slurm={"spares": 1})
    login.play(*job, "--name", "spare", "-d")
    login.wait_for("spare", "running")
    assert login.document("spare")["hosts"] == ["n1", "n2"]
    with lost(login, "n2"):
        done = login.play("attach", "spare", timeout_s=180)
        assert done.code == 0, done.err
        assert "replacement host: n3" in done.err
        assert login.slurm_job("spare")["JobState"] == "COMPLETED"


@LONG
def test_nothing_is_promised_about_the_files_of_a_lost_node(login: Login) -> None:
    """`attach` and `gc` have no way to a node whose job is over; the run said that they would fetch its files."""
    job = login.job("sleep 60", ranks_per_host=1, lease=10, host_timeout=6, slurm={"spares": 1})
    login.play(*job, "--name", "lost", "-d")
    login.wait_for("lost", "running")
    with lost(login, "n2"):
        done = login.play("attach", "lost", timeout_s=180)
        assert done.code == 69, done.err
        document = login.document("lost")
        stay = "its files stay in runs/lost.* of ddp_state_dir there: the Slurm job"
        assert document["verdict"]["hint"].startswith(f"n2: {stay}")
        assert [row for row in document["left_behind"]["n2"] if stay in row]
        assert "collects it" not in done.err + str(document["left_behind"])
        assert "is back" not in done.err + str(document["left_behind"])
        again = login.play("attach", "lost")
        assert "n2: not collected, and slurm job" in again.err
