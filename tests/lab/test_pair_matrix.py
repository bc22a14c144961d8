"""Network matrix on four real hosts: a clean fleet, defects that are named, and a fleet that is healed."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING

import pytest

from ddp_play.checks.pair_exchange import Matrix, measure_matrix
from ddp_play.checks.self_test.defect import HOSTS, every
from ddp_play.checks.self_test.network_defects import HEAL, LINK
from tests import schemas

from .check_runs import defect_named, hosts_of, seeded
from .conftest import bare_lab
from .pair_channels import SETTINGS, Orders, ends, open_channels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Lab

TWO = defect_named("two at once: h2 sends slowly, what h4 sends is lost")
SHAPED = every(tuple((host, f"{HEAL}; {LINK}") for host in HOSTS))


@pytest.fixture(scope="module")
def four(lab_home) -> Iterator[Lab]:  # type: ignore[no-untyped-def]
    """Four hosts."""
    with bare_lab(lab_home, "pairs", 4) as lab:
        yield lab


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


def test_two_defects_at_once_are_named_and_a_healed_fleet_passes(four: Lab) -> None:
    with seeded(four, TWO):
        matrix = measured(four)
        assert said(matrix) == {("host", ("h2",), "rate", "sends"), ("host", ("h4",), "retransmits", "")}, shown(matrix)
        hosts_of(four).run(SHAPED)
        matrix = measured(four)
    assert said(matrix) == set(), shown(matrix)
    assert matrix.num_not_run == 0, shown(matrix)
    assert len(matrix.survey.samples) == 12
    assert 150 < statistics.median(row.mbps or 0.0 for row in matrix.survey.samples) < 201, shown(matrix)


def test_the_self_test_of_the_verb_makes_and_names_them_too(four: Lab) -> None:
    words = ("check", "--self-test", "--lab", four.name, "--only", TWO.name, "--json")
    done = four.play(*words, timeout_s=400)
    document = json.loads(done.stdout)
    schemas.check("check-self-test", document)
    assert done.returncode == 0, done.stdout
    results = {row["defect"]: row["result"] for row in document["trials"]}
    assert results == {"none, level full": "clean", TWO.name: "detected"}
    assert document["counts"]["false_alarms"] == 0
