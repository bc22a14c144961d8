"""`ddp-play check` on hosts with one defect each: it names that host or direction, and nothing else. Takes minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.checks.fleet import QUICK
from ddp_play.checks.self_test.kinds import DEFECTS

from .check_runs import compare, run_check, seeded

if TYPE_CHECKING:
    from ddp_play.checks.self_test.defect import Defect

    from .conftest import Lab

CODES = {"fail": 1, "warn": 0, "not run": 69}


@pytest.mark.parametrize("defect", [row for row in DEFECTS if row.level == QUICK], ids=str)
def test_a_defect_is_the_one_finding_and_none_when_it_is_mended(check_lab: Lab, defect: Defect) -> None:
    with seeded(check_lab, defect) as known:
        code, rows = run_check(check_lab, *defect.options)
        compare(rows, (defect,), known)
        is_reached = defect.check != "host reached"
        assert code == (0 if not defect.wanted else CODES[defect.result] if is_reached else 69)
    code, rows = run_check(check_lab)
    compare(rows, (), known)
    assert code == 0
