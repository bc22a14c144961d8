"""A run is taken over by another supervisor, from what the hosts say."""

from __future__ import annotations

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.errors import Busy, UsageError
from ddp_play.guard.protocol import encode
from ddp_play.run import restart_loop
from tests.unit.run.conftest import OK, Make


def test_a_run_is_taken_over_from_what_the_hosts_say(make: Make) -> None:
    stage = make(2)
    stage.paths.log(0).write_bytes(b"first ")
    for name in ("h1", "h2"):
        stage.state(name, "running")
    stage.far["h1"].answers["follow"] = lambda header, _: [
        encode("log", b"second", rank=0, at=header["logs"]["0"]),
        stage.state("h1", "ended", **OK),
    ]
    stage.on_follow("h2", encode("state", state={**stage.far["h2"].state}))
    stage.far["h2"].answers["follow"] = lambda *_: [stage.state("h2", "ended", **OK)]
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.paths.log(0).read_bytes() == b"first second"
    assert "prepare" not in stage.far["h1"].kinds()


def test_a_run_that_no_host_knows_cannot_be_taken_over(make: Make) -> None:
    with pytest.raises(UsageError, match="no host knows run calm-otter-1"):
        make(2).supervisor().take_over()


def test_a_run_whose_start_signal_never_came_ends(make: Make) -> None:
    """Its guards gave up by themselves; attach must not wait for ranks that were never started."""
    stage = make(2)
    row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "no start signal came", "started": None}
    for name in ("h1", "h2"):
        stage.far[name].answers["follow"] = [stage.state(name, "ended", reason="no start signal came", **row)]
    outcome = stage.supervisor().take_over()
    assert outcome.status is RunStatus.FAILED
    assert outcome.verdict.message == "rank 0 on h1 was ended: no start signal came"


def test_two_supervisors_never_meet(make: Make) -> None:
    stage = make(1, network="")
    with restart_loop.lock(stage.paths), pytest.raises(Busy, match="supervised by another process"):
        stage.supervisor().run()
    assert stage.far["h1"].orders == []
