"""The table of collectives that a user reads."""

from __future__ import annotations

import json

import pytest

from ddp_play.cli.collectives import _as_text, _write_and_show
from ddp_play.measuring.measurement_findings import CollectiveResult
from ddp_play.measuring.measurement_runs import FinishedRun, Variant
from tests.schemas import check
from tests.unit.cli.run_directories import make_run, write_result


def test_results_and_documentation_in_two_columns_per_variant_and_torchs_messages_below() -> None:
    paths = make_run()
    write_result(paths, {"collectives": []})
    table = {
        "all_reduce": {"gloo cpu": CollectiveResult("works", True, "")},
        "reduce_scatter": {"gloo cpu": CollectiveResult("refused", True, "not supported")},
        "barrier": {},
    }
    lines = _as_text(table, [FinishedRun(Variant("gloo", "cpu"), paths, 0)]).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["collective", "gloo", "cpu", "documented"],
        ["all_reduce", "works", "yes"],
        ["reduce_scatter", "refused*", "yes"],
        ["barrier", "not", "run", "-"],
    ]
    assert lines[4:] == ["gloo cpu, reduce_scatter: refused: not supported"]


def test_the_answer_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(verdict={"message": "done"})
    write_result(paths, {"collectives": []})
    _write_and_show([FinishedRun(Variant("gloo", "cpu"), paths, 0)], as_json=True)
    check("collectives", json.loads(capsys.readouterr().out))
