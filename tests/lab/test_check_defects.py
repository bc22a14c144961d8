"""`ddp-play check` on hosts with one defect each: it names that host or direction, and nothing else. Takes minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .check_runs import compare, run_check, seeded
from .host_defects import DEFECTS, Defect

if TYPE_CHECKING:
    from .conftest import Lab


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_a_defect_is_the_one_finding_and_none_when_it_is_mended(check_lab: Lab, defect: Defect) -> None:
    with seeded(check_lab, defect) as known:
        code, rows = run_check(check_lab)
        compare(rows, (defect,), known)
        assert code == {"fail": 1, "warn": 0, "not run": 69}[defect.result]
    code, rows = run_check(check_lab)
    compare(rows, (), known)
    assert code == 0
