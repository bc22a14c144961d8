"""Rank states: what hosts reported, on the controller's clock, and ranks of lost hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.writer import Bundle
from ddp_play.engines.route import Route
from ddp_play.run.attempt_assignment import Assignment, links_of
from ddp_play.run.host_links import Gang
from ddp_play.run.rank_states import outcomes
from tests.unit.build import hosts, plan

if TYPE_CHECKING:
    from pathlib import Path

PLAN = plan(*hosts(2))
EXITED = {"state": "exited", "exit_code": 3, "started": 100.0, "ended": 110.5}


def gang(tmp_path: Path) -> Gang:
    """Links to h1 and h2 that have no channel yet."""
    routes = tuple(Route(name, ("ssh", name), "channel") for name in ("h1", "h2"))
    paths = RunPaths(tmp_path / "calm-otter-1")
    paths.create()
    return Gang(
        links_of(Assignment(PLAN, routes, paths), {"h1", "h2"}),
        run_id=paths.run_id,
        token="",
        attempt=1,
    )


def seen(tmp_path: Path, *, row: dict[str, Any] | None = None, **link: Any) -> RankOutcome:
    """Rank 1, which is on h2: `row` is what h2 reported, `link` are fields of its link."""
    made = gang(tmp_path)
    for name, value in link.items():
        setattr(made.link("h2"), name, value)
    if row is not None:
        made.link("h2").state = {"ranks": {"1": row}, "kernel_problem": "no permission"}
    return outcomes(PLAN, made, Bundle(RunPaths(tmp_path / "calm-otter-1")))[1]


def test_ranks_without_a_report_are_created(tmp_path: Path) -> None:
    ranks = outcomes(PLAN, gang(tmp_path), Bundle(RunPaths(tmp_path / "calm-otter-1")))
    assert [(row.rank, row.host, row.state) for row in ranks] == [(0, "h1", "created"), (1, "h2", "created")]


def test_times_are_those_of_the_controllers_clock(tmp_path: Path) -> None:
    row = seen(tmp_path, row=EXITED, clock_offset_s=20.25)
    assert (row.exit_code, row.started, row.ended, row.log_complete) == (3, 79.75, 90.25, True)
    assert row.kernel_problem == "no permission"


@pytest.mark.parametrize("field", ["lost", "ranks_lost"])
@pytest.mark.parametrize("row", [None, {"state": "running", "started": 100.0}])
def test_unfinished_ranks_are_lost_with_their_host(tmp_path: Path, field: str, row: dict[str, Any] | None) -> None:
    found = seen(tmp_path, row=row, **{field: "silent for 30 s"})
    assert (found.state, found.detail) == ("lost", "silent for 30 s")


def test_a_rank_that_had_exited_keeps_its_exit_code_when_its_host_is_lost(tmp_path: Path) -> None:
    row = seen(tmp_path, row=EXITED, lost="silent for 30 s")
    assert (row.state, row.exit_code, row.log_complete) == ("exited", 3, False)


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({"exit_code": 143, "stopped": True}, "lost"),
        ({"exit_code": 1, "stopped": True}, "lost"),
        ({"exit_code": 143}, "lost"),
        ({"exit_code": 137}, "lost"),
        ({"exit_code": 0, "ended": 109.0}, "lost"),  # by its handler of the signal
        ({"exit_code": 0, "ended": 100.0}, "exited"),
        ({"exit_code": 3, "ended": 109.0}, "exited"),
        ({"state": "running", "exit_code": None}, "running"),
    ],
)
def test_ranks_that_a_shutdown_ended_are_lost_with_their_host(tmp_path: Path, row: dict[str, Any], state: str) -> None:
    made = gang(tmp_path)
    ranks = {"1": {**EXITED, **row}}
    made.link("h2").state = {"reason": "the host is shutting down", "stopping_at": 111.0, "ranks": ranks}
    found = outcomes(PLAN, made, Bundle(RunPaths(tmp_path / "calm-otter-1")))[1]
    assert (found.state, found.detail) == (state, "the host is shutting down" if state == "lost" else "")


def test_a_host_that_shut_down_and_is_silent_now_was_shut_down(tmp_path: Path) -> None:
    made = gang(tmp_path)
    link = made.link("h2")
    link.lost = "silent for 30 s"
    link.state = {"reason": "the host is shutting down", "stopping_at": 111.0, "ranks": {"1": {"state": "running"}}}
    found = outcomes(PLAN, made, Bundle(RunPaths(tmp_path / "calm-otter-1")))[1]
    assert (found.state, found.detail) == ("lost", "the host is shutting down")


def test_the_size_of_the_log_in_the_bundle_is_known(tmp_path: Path) -> None:
    log = RunPaths(tmp_path / "calm-otter-1").log(1)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"12345")
    assert seen(tmp_path, row=EXITED).log_bytes == 5
