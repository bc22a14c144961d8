"""The table of collectives that a user reads."""

from __future__ import annotations

import json

import pytest

from ddp_play.cli.collectives import STYLES, _as_text, _write_and_show
from ddp_play.measuring.measurement_findings import SEVERITY, CollectiveResult
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


def test_a_crash_in_the_table_and_its_reason_below() -> None:
    paths = make_run()
    write_result(paths, {"collectives": []})
    crashed = CollectiveResult("crashed", True, "rank 0 on h1 ended by signal 11 (SIGSEGV)")
    lines = _as_text(
        {"all_gather": {"gloo cpu": crashed}}, [FinishedRun(Variant("gloo", "cpu"), paths, 1)]
    ).splitlines()
    assert lines[1].split() == ["all_gather", "crashed*", "yes"]
    assert lines[2] == "gloo cpu, all_gather: crashed: rank 0 on h1 ended by signal 11 (SIGSEGV)"
    assert STYLES.keys() == set(SEVERITY)


def test_the_answer_fits_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    paths = make_run(verdict={"message": "done"})
    write_result(paths, {"collectives": []})
    _write_and_show([FinishedRun(Variant("gloo", "cpu"), paths, 0)], as_json=True)
    check("collectives", json.loads(capsys.readouterr().out))


def test_runs_after_a_crash_are_listed_with_the_first_one(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = make_run("m", verdict={"message": "signal 11"}), make_run("m-2", verdict={"message": "done"})
    gloo = Variant("gloo", "cpu")
    merged = {"status": "finished", "collectives": []}
    _write_and_show([FinishedRun(gloo, first, 1, further=(FinishedRun(gloo, second, 0),), merged=merged)], as_json=True)
    document = json.loads(capsys.readouterr().out)
    check("collectives", document)
    (run,) = document["runs"]
    assert (run["run"], run["result"]) == ("m", merged)
    assert run["further_runs"] == [{"run": "m-2", "bundle": str(second.root), "exit_code": 0, "message": "done"}]
    assert json.loads((second.root / "collectives.json").read_text()) == document
