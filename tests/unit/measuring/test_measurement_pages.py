"""Pages of measurements: what they say on top, and their tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.measuring.measurement_findings import SEVERITY, BandwidthResult, CollectiveResult, collective_table
from ddp_play.measuring.measurement_pages import KINDS, bench_page, collectives_page
from ddp_play.measuring.measurement_runs import FinishedRun, Variant
from ddp_play.report.table_page import TablePage, table_page
from tests.unit.cli.run_directories import make_run, write_result
from tests.unit.report.hostile import BAD, MARKS
from tests.unit.report.page_reader import PageReader, needs_nothing_else

from .test_measurement_findings import MIB, two_hosts

GLOO = Variant("gloo", "cpu")


def finished(result: dict[str, Any], code: int = 0, **document: Any) -> FinishedRun:
    paths = make_run(argv=["ddp-play", "bench"], **document)
    write_result(paths, result)
    return FinishedRun(GLOO, paths, code)


def sweep(wrong: int = 0) -> dict[str, Any]:
    row = {"bytes": 64 * MIB, "calls": 9, "median_s": 0.5, "p99_s": 0.6, "algbw_gb_s": 0.29, "busbw_gb_s": 0.29,
           "wrong": wrong}  # fmt: skip
    wires = [{"source": "h1", "target": "h2", "gb_s": 0.3}]
    return {"sweeps": [{"op": "all_reduce", "rows": [row], "note": ""}], "wires": wires}


def bench(run: FinishedRun, busbw: float = 0.29) -> TablePage:
    found = {str(GLOO): BandwidthResult("all_reduce", 64 * MIB, busbw, 0.3, None)} if run.result else {}
    return bench_page([run], {str(GLOO): two_hosts()}, found, None)


def test_bandwidth_and_its_tables() -> None:
    page = bench(finished(sweep()))
    assert page.sentence == "Bus bandwidth of all_reduce: 0.290 GB/s (2.32 Gb/s) with gloo cpu"
    assert page.state == "pass"
    assert [table.title for table in page.tables] == ["all_reduce, gloo cpu", "Plain TCP, gloo cpu"]
    assert [cell.text for cell in page.tables[0].rows[0]][:2] == ["64 MiB", "9"]
    assert any("gloo reached 0.967 of that" in line for line in page.lines)


@pytest.mark.parametrize(
    ("run", "busbw", "state", "says"),
    [
        (lambda: finished(sweep(wrong=2)), 0.29, "fail", "2 wrong values"),
        (lambda: finished(sweep()), 0.1, "warn", "Bus bandwidth of all_reduce"),
        (lambda: finished({}, 3, verdict={"message": "rank 1 failed"}), 0.29, "fail", "Bus bandwidth of collectives"),
    ],
)
def test_what_is_not_well(run: Any, busbw: float, state: str, says: str) -> None:
    page = bench(run(), busbw)
    assert page.state == state
    assert says in page.sentence


def test_a_variant_without_a_result_is_a_line() -> None:
    page = bench(finished({}, 3, verdict={"message": "rank 1 failed"}))
    assert page.lines == ("gloo cpu: no result: rank 1 failed",)
    assert page.tables == ()


def collective(**fields: Any) -> dict[str, Any]:
    return {"name": "all_reduce", "status": "works", "documented": True, "detail": "", **fields}


@pytest.mark.parametrize(
    ("row", "cell", "kind", "state"),
    [
        (collective(), "works", "pass", "pass"),
        (collective(documented=False), "works*", "pass", "pass"),
        (collective(status="refused", detail="no"), "refused*", "warn", "pass"),
        (collective(status="hung", detail="no answer"), "hung*", "fail", "fail"),
        (collective(status="crashed", detail="rank 0 on h1 ended"), "crashed*", "fail", "fail"),
    ],
)
def test_collectives(row: dict[str, Any], cell: str, kind: str, state: str) -> None:
    result = {"collectives": [row]}
    page = collectives_page(collective_table({str(GLOO): result}), [finished(result)])
    shown = page.tables[0].rows[0][1]
    assert (shown.text, shown.kind, page.state) == (cell, kind, state)
    assert len(page.tables) == (2 if row["detail"] else 1)


def test_a_collective_that_did_not_run_on_a_variant() -> None:
    table = {"barrier": {"mpi cpu": CollectiveResult("works", True, "")}}
    page = collectives_page(table, [finished({"collectives": []})])
    assert [cell.text for cell in page.tables[0].rows[0]] == ["barrier", "not run", "-"]


def test_every_status_has_its_color_and_the_bundles_of_further_runs_are_named() -> None:
    assert KINDS.keys() == set(SEVERITY)
    first = finished({"collectives": []})
    more = FinishedRun(GLOO, make_run("calm-otter-1-2"), 0)
    page = collectives_page({}, [replace(first, further=(more,))])
    assert page.about[-2:] == (f"gloo cpu: {first.paths.root}", f"gloo cpu: {more.paths.root}")


def is_harmless(page: TablePage) -> bool:
    """Whether nothing of BAD is more than text on the page, and the page can be sent."""
    text = table_page(page)
    reader = PageReader(text)
    needs_nothing_else(reader)
    kinds = {tag for tag, _ in reader.tags}
    return not (kinds & {"script", "img"}) and not any(mark in text for mark in MARKS) and len(text) < 500_000


@pytest.mark.parametrize("text", [BAD, "x" * 10_000_000], ids=["hostile", "endless"])
def test_what_ranks_and_hosts_write_stays_text(text: str) -> None:
    """Pages of bench and collectives: results are files of ranks, names and messages are those of hosts."""
    result = sweep()
    result["sweeps"][0] |= {"op": text, "note": text}
    result["wires"] = [{"source": text, "target": text, "gb_s": 0.3}]
    network = {"fabric": text, "hosts": {text: {"planned": text, "carried": {text: {"rx": 9, "tx": 9}}}}}
    assert is_harmless(bench(finished(result, network=network)))
    assert is_harmless(bench(finished({}, 3, verdict={"message": text})))
    row = collective(name=text, status="refused", detail=text)
    known = {"collectives": [row]}
    assert is_harmless(collectives_page(collective_table({str(GLOO): known}), [finished(known)]))
