"""Exit code and messages of a series of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.cli.run_series import bundle_line, exit_code, print_failures, write_to_bundles
from ddp_play.measuring.measurement_runs import FinishedRun, Variant
from tests.unit.cli.run_directories import make_run, write_result

if TYPE_CHECKING:
    import pytest


def finished(variant: Variant, code: int, *, result: bool = False, **document: Any) -> FinishedRun:
    paths = make_run(f"m-{variant.suffix}", exit_code=code, **document)
    if result:
        write_result(paths, {"collectives": []})
    return FinishedRun(variant, paths, code)


def series() -> list[FinishedRun]:
    absent: dict[str, Any] = {"exit_class": "host_not_ready", "verdict": {"message": "h1: no mpi4py"}}
    return [
        finished(Variant("gloo", "cpu"), 0, result=True),
        finished(Variant("mpi", "cpu", optional=True), 69, **absent),
        finished(Variant("nccl", "cuda"), 3),
    ]


def test_the_first_failure_that_is_not_an_absent_optional_backend_is_the_exit_code() -> None:
    assert exit_code(series()) == 3
    assert exit_code(series()[:2]) == 0


def test_backends_without_a_result_are_named_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    print_failures(series())
    assert capsys.readouterr().out.splitlines() == [
        "mpi cpu: not available here: h1: no mpi4py",
        "nccl cuda: no result: exit code 3",
    ]


def test_every_bundle_gets_the_files_of_the_series() -> None:
    runs = series()
    write_to_bundles(runs, "bench", {"runs": []}, {"bench.svg": b"<svg/>"})
    assert [(run.paths.root / "bench.svg").read_bytes() for run in runs] == [b"<svg/>"] * 3
    assert all((run.paths.root / "bench.json").is_file() for run in runs)
    assert all(str(run.paths.root) in bundle_line(runs, "bench.svg") for run in runs)
