"""State of a run from its rows."""

from __future__ import annotations

from ddp_play.bundle.run_state import MAX_EVENTS, Host, RunState
from tests.unit.build import hosts, ib_host, plan

RUNNING = {"type": "rank", "state": "running", "ok": False, "stopped": False, "how": ""}


def made(num_hosts: int = 2, *, ranks_per_host: int = 1) -> RunState:
    """A run with a plan."""
    state = RunState()
    state.take_plan(plan(*hosts(num_hosts), ranks_per_host=ranks_per_host).to_json(), at=1.0)
    return state


def test_nothing_yet() -> None:
    state = RunState()
    assert (state.phase, state.counts(), state.hosts_in_order()) == ("starting", {}, [])


def test_ranks_of_the_plan_have_not_started() -> None:
    state = made(ranks_per_host=2)
    assert [(rank.number, rank.host, rank.state) for rank in state.ranks.values()] == [
        (0, "h1", "created"),
        (1, "h1", "created"),
        (2, "h2", "created"),
        (3, "h2", "created"),
    ]
    assert state.hosts["h2"].interface == "eth0"
    assert [note.text for note in state.notes] == ["4 ranks on 2 hosts, gloo over ethernet (10.0.0.0/16), env, head h1"]


def test_states_are_counted_failed_ones_first() -> None:
    state = made(ranks_per_host=2)
    for rank in (0, 1, 2):
        state.take_event({**RUNNING, "rank": rank, "host": "h1"})
    state.take_event({**RUNNING, "rank": 2, "host": "h2", "state": "exited", "how": "exit code 3"})
    state.take_event({**RUNNING, "rank": 99, "host": "h2"})
    assert list(state.counts().items()) == [("failed", 1), ("created", 1), ("running", 2)]
    assert [host.name for host in state.hosts_in_order()] == ["h2", "h1"]
    assert [rank.number for rank in state.ranks_in_order(state.hosts["h2"])] == [2, 3]
    assert state.ranks[2].how == "exit code 3"


def test_a_host_that_does_not_answer_comes_before_healthy_ones() -> None:
    state = made(3)
    state.take_event({"type": "host", "host": "h3", "state": "silent"})
    state.take_event({"type": "host", "host": "of nobody", "state": "silent"})
    assert [host.name for host in state.hosts_in_order()] == ["h3", "h1", "h2"]
    state.take_event({"type": "host", "host": "h3", "state": "back"})
    assert [host.name for host in state.hosts_in_order()] == ["h1", "h2", "h3"]


def test_a_restart_forgets_metrics_and_samples_of_before() -> None:
    state = made()
    state.metrics.add([{"loss": 1.0}], received=1.0)
    state.take_sample("h1", {"cores": 8}, {"cpu": 1.0, "attempt": 1})
    state.take_event({"type": "restart", "attempt": 2, "reason": "h2 is lost", "retired": {}, "new": []})
    assert (state.attempt, state.phase, state.metrics.series) == (2, "restarting", {})
    state.take_plan(plan(*hosts(2)).to_json(), at=2.0)
    state.take_sample("h1", {"cores": 8}, {"cpu": 1.0, "attempt": 1})
    assert state.hosts["h1"].sample == {}
    state.take_sample("h1", {"cores": 8}, {"cpu": 2.0, "attempt": 2})
    state.take_sample("of nobody", {}, {})
    assert state.hosts["h1"].sample["cpu"] == 2.0


def test_a_run_that_waits_and_is_stopped() -> None:
    state = RunState()
    state.take_event({"type": "waiting", "reason": "slots"})
    assert state.phase == "waiting"
    state.take_event({"type": "stop", "reason": "asked", "now": False, "grace_s": 3})
    assert state.stopping == "asked"


def test_events_are_bounded() -> None:
    state = RunState()
    for number in range(2 * MAX_EVENTS):
        state.take_event({"time": float(number), "type": "warning", "message": str(number)})
    assert len(state.notes) == MAX_EVENTS
    assert state.notes[-1].time == 2 * MAX_EVENTS - 1


def test_each_rank_has_its_share_of_the_gpus() -> None:
    state = RunState()
    state.take_plan(plan(ib_host("gpu1", 1, num_gpus=4)).to_json(), at=1.0)
    assert [state.hosts["gpu1"].gpus_of(rank) for rank in (0, 3, 4)] == [("0",), ("3",), ()]
    assert Host("h", (0, 1), gpus=("0", "1", "2", "3")).gpus_of(1) == ("2", "3")
    assert Host("h", (0,)).gpus_of(0) == ()
