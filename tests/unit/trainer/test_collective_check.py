"""Outcomes of cases and their table."""

import argparse
import json
import threading
from pathlib import Path

import pytest
import torch

from trainer import collective_check
from trainer.collective_calls import CaseContext, WrongValueError
from trainer.collective_cases import CASES, Case
from trainer.collective_check import (
    Outcome,
    cases_after,
    classify,
    run_cases,
    run_with_limit,
    running_record,
    table,
    worst_outcome,
)
from trainer.output_files import MetricsLog
from trainer.world import World

WORLD = World(rank=0, world_size=2, backend="gloo", device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (WrongValueError("sum: 3 of 4 elements"), "wrong"),
        (RuntimeError("Timed out waiting 1000ms for recv operation to complete"), "hung"),
        (RuntimeError("ProcessGroupGloo does not support send"), "refused"),
        (NotImplementedError(), "refused"),
    ],
)
def test_classify(error: Exception, status: str) -> None:
    found, detail = classify(error)
    assert found == status
    assert detail


def test_a_call_that_never_returns_is_bounded() -> None:
    release = threading.Event()
    assert run_with_limit(release.wait, 0.05) == ("hung", "no answer within 0.05 s")  # type: ignore[arg-type]
    release.set()
    assert run_with_limit(lambda: None, 5) == ("works", "")


def test_the_worst_rank_counts_and_differences_are_marked() -> None:
    good, bad = Outcome("barrier", "works", "", 0.1, False), Outcome("barrier", "refused", "no", 0.0, False)
    assert worst_outcome((good, bad, good)) is bad
    assert "works    no*" in table([good], WORLD)
    assert "refused  no " in table([bad], WORLD)


def test_cases_behind_a_case() -> None:
    assert cases_after("") == CASES
    assert cases_after(CASES[0].name) == CASES[1:]
    assert cases_after(CASES[-1].name) == ()


def test_an_unknown_case_is_refused_with_all_names(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    collective_check.add_arguments(parser)
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(["--after", "all_gather_colesced"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "argument --after: invalid choice: 'all_gather_colesced'" in message
    assert "'all_gather_coalesced'" in message


def test_the_result_file_names_the_case_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = argparse.Namespace(result=tmp_path / "result.json", case_timeout=1.0)
    seen = []

    def run_case(case: Case, *_: object) -> Outcome:
        seen.append(json.loads(args.result.read_text()))
        return Outcome(case.name, "works", "", 0.5, True)

    def never(context: CaseContext) -> None:
        raise AssertionError(context)

    monkeypatch.setattr(collective_check, "run_case", run_case)
    cases = (Case("first", never, "broadcast"), Case("second", never, "barrier"))
    outcomes = run_cases(cases, WORLD, None, MetricsLog(None, rank=0), args)
    assert [(one["status"], one["running"], len(one["this_rank"])) for one in seen] == [
        ("running", "first", 0),
        ("running", "second", 1),
    ]
    assert seen[0]["cases"] == [{"name": name, "documented": True} for name in ("first", "second")]
    assert json.loads(args.result.read_text()) == running_record("", cases, outcomes, WORLD)
    args.result = None
    monkeypatch.setattr(collective_check, "run_case", lambda case, *_: Outcome(case.name, "works", "", 0.5, True))
    assert run_cases(cases, WORLD, None, MetricsLog(None, rank=0), args) == outcomes
