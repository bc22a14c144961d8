"""Each defect of the network between four hosts: exactly the host, link or direction is named, and nothing else."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.pair_exchange import measure_matrix

from .pair_channels import SETTINGS, Orders, addresses, ends, open_channels
from .pair_defects import DEFECTS, Defect, as_root, heal, seed
from .test_pair_matrix import check, four, measured, said, shown

if TYPE_CHECKING:
    from .conftest import Lab

__all__ = ["four"]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_each_defect(four: Lab, defect: Defect) -> None:
    check(four, defect)


def test_a_healed_fleet_passes_again(four: Lab) -> None:
    check(four, None)


def test_hosts_whose_cpu_is_the_limit_are_not_blamed(four: Lab) -> None:
    """Without a limit of the link, lab hosts copy as fast as the CPUs that they share allow."""
    heal(four)
    matrix = measured(four)
    assert said(matrix) == set(), shown(matrix)
    assert matrix.num_cpu_limited > 0, shown(matrix)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_host_that_dies_or_hangs_in_a_round_ends_its_own_pairs_only(four: Lab, number: int) -> None:
    seed(four, addresses(four.inventory), None)
    orders = Orders(open_channels(four.inventory))
    ended: list[str] = []

    def strike(kind: str) -> None:
        if kind == "pair_test" and not ended:
            ended.append("h3")
            as_root(four, "h3", f"pkill -{int(number)} -f 'ddp-play [c]hannel'")

    orders.between = strike
    try:
        matrix = measure_matrix(orders, ends(four.inventory), SETTINGS)
    finally:
        orders.close()
        as_root(four, "h3", "pkill -KILL -f 'ddp-play [c]hannel'; true")
    rows: list[Any] = [row for row in matrix.survey.samples if "h3" in row.pair]
    assert matrix.lost.keys() == {"h3"}, shown(matrix)
    assert all(row.mbps is None and not row.unmet for row in rows), shown(matrix)
    assert all(row.mbps for row in matrix.survey.samples if "h3" not in row.pair), shown(matrix)
    assert said(matrix) == set(), shown(matrix)
    assert matrix.num_not_run == 3
