"""`ddp-play check` on hosts with one defect each: it names that host or direction, and nothing else. Takes minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .check_runs import compare, run_check, seeded
from .conftest import bare_lab
from .host_defects import DEFECTS, Defect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab


@pytest.fixture(scope="module")
def bare3(lab_home: Path) -> Iterator[Lab]:
    """Three hosts without an engine."""
    with bare_lab(lab_home, "check", 3) as lab:
        yield lab


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_a_defect_is_the_one_finding_and_none_when_it_is_mended(bare3: Lab, defect: Defect) -> None:
    with seeded(bare3, defect) as known:
        code, rows = run_check(bare3)
        compare(rows, (defect,), known)
        assert code == (1 if defect.result == "fail" else 0)
    code, rows = run_check(bare3)
    compare(rows, (), known)
    assert code == 0
