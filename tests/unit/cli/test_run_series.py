"""Exit code and messages of a series of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import runs_dir
from ddp_play.cli.run_series import (
    bundle_line,
    exit_code,
    further_name,
    no_next_run,
    print_failures,
    run_variant,
    write_to_bundles,
)
from ddp_play.measuring.measurement_runs import FinishedRun, NextRun, Variant
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


def test_runs_go_on_as_long_as_one_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    started = []

    def start(name: str, more: tuple[str, ...]) -> FinishedRun:
        started.append((name, more))
        return finished(Variant("gloo", "cpu"), 0, result=True)

    def next_run(runs: list[FinishedRun]) -> NextRun | None:
        return NextRun(("--after", f"case {len(runs)}"), f"it crashed {len(runs)} times") if len(runs) < 3 else None

    run_variant(start, "m-gloo-cpu", next_run)
    assert started == [
        ("m-gloo-cpu", ()),
        ("m-gloo-cpu-2", ("--after", "case 1")),
        ("m-gloo-cpu-3", ("--after", "case 2")),
    ]
    assert capsys.readouterr().err.splitlines() == ["gloo cpu: it crashed 1 times", "gloo cpu: it crashed 2 times"]
    started.clear()
    run_variant(start, "m-gloo-cpu", no_next_run)
    assert started == [("m-gloo-cpu", ())]


def test_names_of_further_runs() -> None:
    """A series does not end because a name is taken, or too long for the second run."""
    assert further_name("m-gloo-cpu", 2) == "m-gloo-cpu-2"
    assert further_name("m" * 47, 2) == ""
    (runs_dir() / "m-gloo-cpu-2").mkdir(parents=True)
    assert further_name("m-gloo-cpu", 2) == ""


def test_further_runs_get_the_files_too() -> None:
    first, second = (finished(Variant("gloo", device), 0) for device in ("cpu", "cuda"))
    runs = [FinishedRun(first.variant, first.paths, 1, further=(second,))]
    write_to_bundles(runs, "collectives", {}, {"collectives.txt": b"table"})
    for run in (first, second):
        assert (run.paths.root / "collectives.txt").read_bytes() == b"table"
        assert str(run.paths.root) in bundle_line(runs, "collectives.txt")
