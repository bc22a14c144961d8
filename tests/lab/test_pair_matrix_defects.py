"""Each defect of the network between four hosts: exactly the host, link or direction is named. Takes minutes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.fleet import FULL
from ddp_play.checks.pair_exchange import measure_matrix
from ddp_play.checks.self_test.defect import inside
from ddp_play.checks.self_test.kinds import DEFECTS

from .check_runs import compare, hosts_of, run_check, seeded
from .pair_channels import SETTINGS, Orders, ends, open_channels
from .test_pair_matrix import SHAPED, four, measured, said, shown

if TYPE_CHECKING:
    from ddp_play.checks.self_test.defect import Defect

    from .conftest import Lab

__all__ = ["four"]


@pytest.mark.parametrize("defect", [row for row in DEFECTS if row.level == FULL], ids=str)
def test_a_defect_is_found_and_nothing_else_and_none_when_it_is_mended(four: Lab, defect: Defect) -> None:
    with seeded(four, defect) as known:
        code, rows = run_check(four, "--level", FULL)
        compare(rows, (defect,), known)
        assert code == (1 if defect.wanted else 0)
    assert run_check(four, "--level", FULL) == (0, [])


def test_hosts_whose_cpu_is_the_limit_are_not_blamed(four: Lab) -> None:
    """Without a limit of the link, lab hosts copy as fast as the CPUs that they share allow."""
    matrix = measured(four)
    assert said(matrix) == set(), shown(matrix)
    assert matrix.num_cpu_limited > 0, shown(matrix)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_dies_or_hangs_in_a_round_ends_its_own_pairs_only(four: Lab, number: int) -> None:
    hosts = hosts_of(four)
    hosts.run(SHAPED)
    orders = Orders(open_channels(four.inventory))
    ended: list[str] = []

    def strike(kind: str) -> None:
        if kind == "pair_test" and not ended:
            ended.append("h3")
            hosts.run(inside("h3", f'pkill -{int(number)} -f "ddp-play [c]hannel"'))

    orders.between = strike
    try:
        matrix = measure_matrix(orders, ends(four.inventory), SETTINGS)
    finally:
        orders.close()
        hosts.run(inside("h3", 'pkill -KILL -f "ddp-play [c]hannel"; true'))
    rows: list[Any] = [row for row in matrix.survey.samples if "h3" in row.pair]
    assert matrix.lost.keys() == {"h3"}, shown(matrix)
    assert all(row.mbps is None and not row.unmet for row in rows), shown(matrix)
    assert all(row.mbps for row in matrix.survey.samples if "h3" not in row.pair), shown(matrix)
    assert said(matrix) == set(), shown(matrix)
    assert matrix.num_not_run == 3
