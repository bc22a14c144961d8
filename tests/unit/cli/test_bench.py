"""The criterion --at-least of `ddp-play bench`, and its answer in JSON."""

from __future__ import annotations

import pytest

from ddp_play.cli.bench import _check_share, _operations, _run_as_json
from ddp_play.errors import CheckFailed
from ddp_play.measuring.measurement_findings import BandwidthResult
from ddp_play.measuring.measurement_runs import FinishedRun, Variant
from tests.schemas import check
from tests.unit.cli.run_directories import make_run, write_result


def result(busbw: float, wire: float | None = 1.0) -> BandwidthResult:
    return BandwidthResult("all_reduce", 64 << 20, busbw, wire, None)


def test_enough_bandwidth_passes() -> None:
    _check_share({"gloo cpu": result(0.96)}, 0.95)
    _check_share({"gloo cpu": None}, 0.0)
    _check_share({}, 0.0)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"gloo cpu": result(0.5)}, "gloo cpu: 0.500 of plain TCP, but --at-least requires 0.95"),
        ({"gloo cpu": result(0.96), "nccl cuda": result(1.0, None)}, "nccl cuda: its share of plain TCP was not"),
        ({"gloo cpu": None}, "gloo cpu: its share of plain TCP was not measured"),
        ({}, "nothing was measured"),
    ],
)
def test_too_little_or_none_fails(found: dict[str, BandwidthResult | None], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        _check_share(found, 0.95)


@pytest.mark.parametrize("bandwidth", [None, result(0.9), result(0.9, None)])
def test_the_answer_fits_its_schema(bandwidth: BandwidthResult | None) -> None:
    paths = make_run(network={"fabric": "ethernet"})
    write_result(paths, {"sweeps": []})
    row = _run_as_json(FinishedRun(Variant("gloo", "cpu"), paths, 0), {"gloo cpu": bandwidth})
    check("bench", {"runs": [row], "units": {}})


def test_the_trainers_options_for_collectives() -> None:
    assert _operations(None) == ("--op", "all_reduce")
    assert _operations(["all_gather", "reduce"]) == ("--op", "all_gather", "--op", "reduce")
