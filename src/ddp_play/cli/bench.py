"""`ddp-play bench`: bandwidth of collectives over sizes, compared with plain TCP between the same hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ddp_play.bundle.network_traffic import traffic_lines
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options, run_series
from ddp_play.cli.engine_verb import on_engine
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import CheckFailed
from ddp_play.measuring.measurement_findings import (
    BandwidthResult,
    bandwidth_result,
    bandwidth_verdict_lines,
    rate,
    size_text,
    time_text,
)
from ddp_play.measuring.measurement_pages import bench_page
from ddp_play.measuring.measurement_runs import FinishedRun
from ddp_play.planning.plan_document import Plan, plan_from_json
from ddp_play.report.table_page import ChartOfPage, table_page

if TYPE_CHECKING:
    from ddp_play.measuring.bandwidth_chart import Line

TITLE = "Bus bandwidth of collectives"

SecondsPerSize = Annotated[float, typer.Option("--seconds-per-size", help="Duration of the timed calls of one size.")]
LimitPerSize = Annotated[float, typer.Option("--limit-per-size", help="Skip sizes that would take more seconds.")]
AtLeast = Annotated[float, typer.Option("--at-least", help="Fail below this share of plain TCP, for instance 0.95.")]


@options.with_ansible
@on_engine("bench")
def bench(
    *,
    inventory: options.Inventory = None,
    backend: run_series.Backends = None,
    op: Annotated[list[str] | None, typer.Option("--op", help="Collective to measure, repeatable, or all.")] = None,
    min_bytes: Annotated[str, typer.Option("--min-bytes", help="Smallest message: 8, 4K, 64M.")] = "8",
    max_bytes: Annotated[str, typer.Option("--max-bytes", help="Largest message; smaller if memory is short.")] = "1G",
    seconds: SecondsPerSize = 1.0,
    limit_per_size_s: LimitPerSize = 60.0,
    at_least: AtLeast = 0.0,
    name: run_series.Name = "",
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Measure the bandwidth of collectives by message size, compared with plain TCP between the same hosts.

    algbw is size / time; busbw is algbw times the share of the data that must cross a rank's link, for all_reduce

    2(n-1)/n, as nccl-tests defines them; GB/s are 10^9 bytes. The values of every size are checked first.

    Exit codes: 0 done, 1 wrong values or below --at-least, else the code of the failed run.

    [bold]Examples[/]

      ddp-play bench -i inventory

      ddp-play bench -i inventory --op all --max-bytes 64M --json

      ddp-play bench -i inventory -e ddp_job_network=10.10.0.0/24 --at-least 0.95
    """
    with error_boundary():
        sizes = ("--min-bytes", min_bytes, "--max-bytes", max_bytes)
        times = ("--seconds-per-size", f"{seconds:g}", "--limit", f"{limit_per_size_s:g}")
        command = ("{python}", "-m", "trainer", "allreduce", *sizes, *times, *_operations(op))
        backends = tuple(backend or ())
        finished = run_series.run_variants("bench", inventory, ansible, command, backends=backends, name=name)
        _check_share(_write_and_show(finished, as_json=as_json), at_least)
        raise typer.Exit(run_series.exit_code(finished))


def _operations(names: list[str] | None) -> tuple[str, ...]:
    return tuple(word for name in names or ("all_reduce",) for word in ("--op", name))


def _write_and_show(finished: list[FinishedRun], *, as_json: bool) -> dict[str, BandwidthResult | None]:
    """Write table and charts into the bundles and print them; return the bandwidth of each variant, by its name."""
    plans = {
        str(finished_run.variant): plan_from_json(read_json(finished_run.paths.plan))
        for finished_run in finished
        if finished_run.result
    }
    found = {
        str(finished_run.variant): bandwidth_result(finished_run.result, plans[str(finished_run.variant)])
        for finished_run in finished
        if finished_run.result
    }
    document = {
        "runs": [_run_as_json(finished_run, found) for finished_run in finished],
        "units": {"algbw_gb_s": "10^9 bytes/s: size / median", "busbw_gb_s": "algbw x bus_factor"},
    }
    run_series.write_to_bundles(finished, "bench", document, _files(finished, plans, found))
    if as_json:
        console.as_json(document)
    else:
        _show(finished, plans, found)
    return found


def _run_as_json(finished_run: FinishedRun, found: dict[str, BandwidthResult | None]) -> dict[str, Any]:
    bandwidth = found.get(str(finished_run.variant))
    return {**finished_run.to_json(), "reach": bandwidth.to_json() if bandwidth else None}


def _show(finished: list[FinishedRun], plans: dict[str, Plan], found: dict[str, BandwidthResult | None]) -> None:
    for finished_run in finished:
        if not finished_run.result:
            continue
        plan = plans[str(finished_run.variant)]
        for sweep in finished_run.result["sweeps"]:
            where = f"{counted(finished_run.result['world_size'], 'rank')} on {counted(len(plan.hosts), 'host')}"
            console.line(f"{sweep['op']}, {finished_run.variant}, {where}, float32")
            console.wide_table(_table(sweep))
            if sweep["note"]:
                console.line(sweep["note"])
        for wire in finished_run.result.get("wires", ()):
            console.line(f"plain TCP {wire['source']} -> {wire['target']}: {rate(wire['gb_s'])}")
        for line in traffic_lines(finished_run.document.get("network") or {}):
            console.line(line)
        for line in bandwidth_verdict_lines(
            found[str(finished_run.variant)], plan, backend=finished_run.variant.backend
        ):
            console.line(line, style="bold")
    run_series.print_failures(finished)
    console.note(run_series.bundle_line(finished, "bench.html, bench.json, bench.svg and bench.png"))


def _table(sweep: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("size", "calls", "p50", "p99", "algbw GB/s", "busbw GB/s", "wrong"):
        table.add_column(column, justify="right")
    for row in sweep["rows"]:
        table.add_row(
            size_text(row["bytes"]),
            str(row["calls"]),
            time_text(row["median_s"]),
            time_text(row["p99_s"]),
            f"{row['algbw_gb_s']:.3f}",
            f"{row['busbw_gb_s']:.3f}",
            str(row["wrong"]),
            style="bold red" if row["wrong"] else None,
        )
    return table


def _files(
    finished: list[FinishedRun], plans: dict[str, Plan], found: dict[str, BandwidthResult | None]
) -> dict[str, bytes]:
    """Page and charts of busbw over size."""
    from ddp_play.measuring.bandwidth_chart import as_png, as_svg, chart  # noqa: PLC0415 - matplotlib takes a second to import
    from ddp_play.report.svg_charts import page_svg  # noqa: PLC0415

    lines = _lines(finished, found)
    figure = chart(TITLE, lines, x_label="message size in bytes", y_label="busbw, GB/s")
    charts = {"bench.svg": as_svg(figure), "bench.png": as_png(figure)}
    names = tuple(line.name for line in lines if line.points)
    page = bench_page(finished, plans, found, ChartOfPage(TITLE, page_svg(figure, 0), names))
    return {**charts, "bench.html": table_page(page).encode()}


def _lines(finished: list[FinishedRun], found: dict[str, BandwidthResult | None]) -> list[Line]:
    """A line per variant and collective, dashed levels for plain TCP and the link."""
    from ddp_play.measuring.bandwidth_chart import Line  # noqa: PLC0415

    lines, levels = [], []
    for finished_run in finished:
        for sweep in finished_run.result.get("sweeps", ()):
            points = tuple((row["bytes"], row["busbw_gb_s"]) for row in sweep["rows"] if row["busbw_gb_s"] > 0)
            lines.append(Line(f"{sweep['op']} {finished_run.variant}", points))
        bandwidth = found.get(str(finished_run.variant))
        if bandwidth is not None:
            levels = [("plain TCP", bandwidth.wire_gb_s), ("link", bandwidth.link_gb_s)]
    xs = [x for line in lines for x, _ in line.points]
    ends = (min(xs, default=1), max(xs, default=1))
    return lines + [Line(name, tuple((x, value) for x in ends), dashed=True) for name, value in levels if value]


def _check_share(found: dict[str, BandwidthResult | None], at_least: float) -> None:
    """Check --at-least. Raises CheckFailed if a variant is below that share of plain TCP or was not measured."""
    if not at_least:
        return
    bad = []
    for variant, bandwidth in found.items():
        share = bandwidth.of_wire if bandwidth is not None else None
        if share is None:
            bad.append(f"{variant}: its share of plain TCP was not measured")
        elif share < at_least:
            bad.append(f"{variant}: {share:.3f} of plain TCP, but --at-least requires {at_least:g}")
    if bad or not found:
        raise CheckFailed(
            "\n".join(bad) or "nothing was measured", hint="stop other work on these hosts and measure again"
        )
