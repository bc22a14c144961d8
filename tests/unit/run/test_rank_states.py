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


def test_the_size_of_the_log_in_the_bundle_is_known(tmp_path: Path) -> None:
    log = RunPaths(tmp_path / "calm-otter-1").log(1)
    log.parent.mkdir(parents=True)
    log.write_bytes(b"12345")
    assert seen(tmp_path, row=EXITED).log_bytes == 5
