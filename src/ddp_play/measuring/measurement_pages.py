"""Pages of `bench` and `collectives`: verdict, chart and tables of a series of runs. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.network_traffic import traffic_lines
from ddp_play.bundle.summary import counted
from ddp_play.measuring.measurement_findings import (
    POOR_SHARE,
    CollectiveResult,
    bandwidth_verdict_lines,
    rate,
    size_text,
    time_text,
)
from ddp_play.measuring.measurement_runs import failure_lines
from ddp_play.report.table_page import Cell, ChartOfPage, TableOfPage, TablePage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddp_play.measuring.measurement_findings import BandwidthResult
    from ddp_play.measuring.measurement_runs import FinishedRun
    from ddp_play.planning.plan_document import Plan

SWEEP = ("Size", "Calls", "p50", "p99", "algbw GB/s", "busbw GB/s", "Wrong")
KINDS = {"works": "pass", "refused": "warn", "wrong": "fail", "hung": "fail", "crashed": "fail", "not run": "dim"}


def bench_page(
    finished: Sequence[FinishedRun],
    plans: Mapping[str, Plan],
    found: Mapping[str, BandwidthResult | None],
    chart: ChartOfPage | None,
) -> TablePage:
    """Page of bandwidths. `plans` and `found` are by the name of a variant; variants without a result are lines."""
    lines: list[str] = []
    tables: list[TableOfPage] = []
    for run in finished:
        if not run.result:
            continue
        plan = plans[str(run.variant)]
        texts = bandwidth_verdict_lines(found.get(str(run.variant)), plan, backend=run.variant.backend)
        lines += [f"{run.variant}: {text}" for text in (*texts, *traffic_lines(run.document.get("network") or {}))]
        tables += [_sweep_table(sweep, f"{sweep['op']}, {run.variant}") for sweep in run.result.get("sweeps", ())]
        if wires := run.result.get("wires"):
            tables.append(_wire_table(wires, f"Plain TCP, {run.variant}"))
    wrong = sum(row["wrong"] for run in finished for sweep in run.result.get("sweeps", ()) for row in sweep["rows"])
    lines += failure_lines(finished)
    state = _state(finished, is_bad=bool(wrong), is_poor=any(_is_poor(result) for result in found.values()))
    return TablePage(_bench_sentence(found, wrong), state, tuple(lines), _about(finished), tuple(tables), chart)


def collectives_page(table: Mapping[str, Mapping[str, CollectiveResult]], finished: Sequence[FinishedRun]) -> TablePage:
    """Page of collectives by variant. A star marks results that differ from torch's documentation."""
    variants = [str(run.variant) for run in finished if run.result]
    columns = tuple(text for variant in variants for text in (variant, "documented"))
    nothing = CollectiveResult("not run", None, "")
    rows = []
    for name, results in table.items():
        cells = [Cell(name)]
        for variant in variants:
            result = results.get(variant) or nothing
            cells.append(Cell(result.status + ("*" if result.differs else ""), KINDS[result.status]))
            cells.append(Cell({True: "yes", False: "no", None: "-"}[result.documented], "dim"))
        rows.append(tuple(cells))
    bad = [
        f"{name} on {variant}" for name, results in table.items() for variant, result in results.items() if result.bad
    ]
    tables = [
        TableOfPage("Collectives", ("Collective", *columns), tuple(rows), "* differs from torch's documentation.")
    ]
    if details := _details(table):
        tables.append(TableOfPage("What torch said", ("Collective", "Variant", "Result", "Message"), details))
    sentence = (
        f"Wrong values, a hang or a crash: {', '.join(bad[:4])}" if bad else "All values that were computed are right"
    )
    lines = tuple(failure_lines(finished))
    return TablePage(sentence, _state(finished, is_bad=bool(bad)), lines, _about(finished), tuple(tables))


def _details(table: Mapping[str, Mapping[str, CollectiveResult]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        (Cell(name), Cell(variant), Cell(result.status, KINDS[result.status]), Cell(result.detail))
        for name, results in table.items()
        for variant, result in results.items()
        if result.detail and result.status != "not run"
    )


def _bench_sentence(found: Mapping[str, BandwidthResult | None], wrong: int) -> str:
    if wrong:
        return f"{counted(wrong, 'wrong value')} in the results of collectives"
    known = [f"{rate(result.busbw_gb_s)} with {variant}" for variant, result in found.items() if result]
    return f"Bus bandwidth of all_reduce: {', '.join(known)}" if known else "Bus bandwidth of collectives"


def _is_poor(result: BandwidthResult | None) -> bool:
    return result is not None and result.of_wire is not None and result.of_wire < POOR_SHARE


def _state(finished: Sequence[FinishedRun], *, is_bad: bool, is_poor: bool = False) -> str:
    if is_bad or any(run.exit_code and not run.absent for run in finished):
        return "fail"
    return "warn" if is_poor else "pass"


def _about(finished: Sequence[FinishedRun]) -> tuple[str, ...]:
    argv = finished[0].document.get("argv") if finished else None
    command = [shlex.join(map(str, argv))] if argv else []
    return (*command, *(f"{run.variant}: {paths.root}" for run in finished for paths in run.bundles))


def _sweep_table(sweep: Mapping[str, Any], title: str) -> TableOfPage:
    rows = tuple(
        tuple(
            Cell(text, "fail" if row["wrong"] and at == len(SWEEP) - 1 else "", is_number=True)
            for at, text in enumerate((
                size_text(row["bytes"]), str(row["calls"]), time_text(row["median_s"]), time_text(row["p99_s"]),
                f"{row['algbw_gb_s']:.3f}", f"{row['busbw_gb_s']:.3f}", str(row["wrong"]),
            ))
        ) for row in sweep["rows"]
    )  # fmt: skip
    return TableOfPage(title, SWEEP, rows, str(sweep["note"] or ""))


def _wire_table(wires: Sequence[Mapping[str, Any]], title: str) -> TableOfPage:
    rows = tuple((Cell(str(wire["source"])), Cell(str(wire["target"])), Cell(rate(wire["gb_s"]))) for wire in wires)
    return TableOfPage(title, ("From", "To", "Bandwidth"), rows)
