"""Network matrix on four real hosts: a clean fleet, defects that are named, and a fleet that is healed."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

import pytest

from ddp_play.checks.pair_exchange import Matrix, measure_matrix
from tests import schemas

from .conftest import bare_lab
from .pair_channels import SETTINGS, Orders, addresses, ends, open_channels
from .pair_defects import TWO, Defect, heal, seed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lab


@pytest.fixture(scope="module")
def four(lab_home) -> Iterator[Lab]:  # type: ignore[no-untyped-def]
    """Four hosts."""
    with bare_lab(lab_home, "pairs", 4) as lab:
        yield lab
        heal(lab)


def measured(lab: Lab) -> Matrix:
    """The matrix of the lab's hosts."""
    orders = Orders(open_channels(lab.inventory))
    try:
        return measure_matrix(orders, ends(lab.inventory), SETTINGS)
    finally:
        orders.close()


def said(matrix: Matrix) -> set[tuple[str, tuple[str, ...], str, str]]:
    """What the verdicts name. Of loss the way does not count: what is lost is data or an acknowledgement."""
    return {
        (str(row.kind), row.hosts, row.evidence[0].metric, row.way if row.evidence[0].metric != "retransmits" else "")
        for row in matrix.verdicts
    }


def shown(matrix: Matrix) -> str:
    """For the message of a failure."""
    rows = [f"{row.source} -> {row.target}: {row.mbps} {row.busy} {row.retransmits} {row.rtt_ms} {row.problem}"
            for row in (*matrix.survey.samples, *matrix.survey.repeats)]  # fmt: skip
    return "\n".join([*(row.text() for row in matrix.verdicts), *rows])


def check(lab: Lab, defect: Defect | None) -> Matrix:
    """Seed it, measure, and expect exactly its verdicts."""
    seed(lab, addresses(lab.inventory), defect)
    matrix = measured(lab)
    assert said(matrix) == (defect.right if defect else frozenset()), shown(matrix)
    assert matrix.num_not_run == 0, shown(matrix)
    return matrix


def test_two_defects_at_once_are_named_and_a_healed_fleet_passes(four: Lab) -> None:
    check(four, TWO)
    matrix = check(four, None)
    assert len(matrix.survey.samples) == 12
    assert 150 < statistics.median(row.mbps or 0.0 for row in matrix.survey.samples) < 201, shown(matrix)


def test_the_full_level_of_the_verb_names_them_too(four: Lab) -> None:
    seed(four, addresses(four.inventory), TWO)
    try:
        done = four.play("check", "-i", str(four.inventory), "--level", "full", "--json")
    finally:
        heal(four)
    document = json.loads(done.stdout)
    schemas.check("check", document)
    rows = [row for row in document["findings"] if row["check"] == "network" and row["result"] != "pass"]
    right = {hosts for _, hosts, *_ in TWO.right}
    assert {tuple(row["where"]) for row in rows} == right, done.stdout
    assert done.returncode == 1
    assert len(document["matrix"]["directions"]) == 12
    assert four.play("check", "-i", str(four.inventory), "--level", "full").returncode == 0
