"""`ddp-play bench`: bandwidth of collectives over sizes, compared with plain TCP between the same hosts."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from ddp_play.bundle.network_traffic import traffic_lines
from ddp_play.bundle.paths import read_json
from ddp_play.cli import console, options, run_series
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import CheckFailed
from ddp_play.measuring.measurement_findings import Reach, rate, reach, reach_lines, size_text, time_text
from ddp_play.measuring.measurement_runs import Finished
from ddp_play.planning.plan_document import Plan, plan_from_json


@options.with_ansible
def bench(
    *,
    inventory: options.Inventory = None,
    backend: run_series.Backends = None,
    op: Annotated[list[str] | None, typer.Option("--op", help="A collective, repeatable, or all.")] = None,
    min_bytes: Annotated[str, typer.Option("--min-bytes", help="Smallest message: 8, 4K, 64M.")] = "8",
    max_bytes: Annotated[str, typer.Option("--max-bytes", help="Largest message; less where memory is short.")] = "1G",
    seconds: Annotated[float, typer.Option("--seconds-per-size", help="For the timed calls of one size.")] = 1.0,
    patience: Annotated[float, typer.Option("--limit-per-size", help="Leave out sizes that would take longer.")] = 60.0,
    at_least: Annotated[
        float, typer.Option("--at-least", help="Fail below this share of plain TCP, for instance 0.95.")
    ] = 0.0,
    name: run_series.Name = "",
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Measure collectives over message sizes, with plain TCP between the same hosts in the same run.

    algbw is size / time; busbw is algbw times the share of the data that must cross a rank's link, for all_reduce

    2(n-1)/n, as nccl-tests defines them; GB/s are 10^9 bytes. Every size is checked for right values first.

    Exit codes: 0 done, 1 wrong values or below --at-least, else that of the run that failed.

    [bold]Examples[/]

      ddp-play bench -i inventory

      ddp-play bench -i inventory --op all --max-bytes 64M --json

      ddp-play bench -i inventory -e ddp_job_network=10.10.0.0/24 --at-least 0.95
    """
    with error_boundary():
        sizes = ("--min-bytes", min_bytes, "--max-bytes", max_bytes)
        times = ("--seconds-per-size", f"{seconds:g}", "--limit", f"{patience:g}")
        command = ("{python}", "-m", "trainer", "allreduce", *sizes, *times, *_operations(op))
        backends = tuple(backend or ())
        finished = run_series.run_everywhere("bench", inventory, ansible, command, backends=backends, name=name)
        _require(_keep_and_show(finished, as_json=as_json), at_least)
        raise typer.Exit(run_series.exit_code(finished))


def _operations(names: list[str] | None) -> tuple[str, ...]:
    return tuple(word for name in names or ("all_reduce",) for word in ("--op", name))


def _keep_and_show(finished: list[Finished], *, as_json: bool) -> dict[str, Reach | None]:
    """Write table and plots into the bundles and print them; what each backend and device reached of plain TCP."""
    plans = {str(one.way): plan_from_json(read_json(one.paths.plan)) for one in finished if one.result}
    found = {str(one.way): reach(one.result, plans[str(one.way)]) for one in finished if one.result}
    document = {
        "runs": [_one_as_json(one, found) for one in finished],
        "units": {"algbw_gb_s": "10^9 bytes/s: size / median", "busbw_gb_s": "algbw x bus_factor"},
    }
    run_series.keep(finished, "bench", document, _pictures(finished, found))
    if as_json:
        console.as_json(document)
    else:
        _show(finished, plans, found)
    return found


def _one_as_json(one: Finished, found: dict[str, Reach | None]) -> dict[str, Any]:
    far = found.get(str(one.way))
    return {**one.to_json(), "reach": far.to_json() if far else None}


def _show(finished: list[Finished], plans: dict[str, Plan], found: dict[str, Reach | None]) -> None:
    for one in finished:
        if not one.result:
            continue
        plan = plans[str(one.way)]
        for sweep in one.result["sweeps"]:
            where = f"{one.result['world_size']} ranks on {len(plan.hosts)} host(s)"
            console.line(f"{sweep['op']}, {one.way}, {where}, float32")
            console.out.print(_table(sweep))
            if sweep["note"]:
                console.line(sweep["note"])
        for wire in one.result.get("wires", ()):
            console.line(f"plain TCP {wire['source']} -> {wire['target']}: {rate(wire['gb_s'])}")
        for line in traffic_lines(one.document.get("network") or {}):
            console.line(line)
        for line in reach_lines(found[str(one.way)], plan, backend=one.way.backend):
            console.line(line, style="bold")
    run_series.say_failures(finished)
    console.note(run_series.bundle_line(finished, "bench.json, bench.svg and bench.png"))


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


def _pictures(finished: list[Finished], found: dict[str, Reach | None]) -> dict[str, bytes]:
    """busbw over size, a line per backend, device and collective; plain TCP and the link as dashed levels."""
    from ddp_play.measuring.bandwidth_chart import Line, as_png, as_svg, chart  # noqa: PLC0415 - a second that no other verb needs

    lines, levels = [], []
    for one in finished:
        for sweep in one.result.get("sweeps", ()):
            points = tuple((row["bytes"], row["busbw_gb_s"]) for row in sweep["rows"] if row["busbw_gb_s"] > 0)
            lines.append(Line(f"{sweep['op']} {one.way}", points))
        far = found.get(str(one.way))
        if far is not None:
            levels = [("plain TCP", far.wire_gb_s), ("link", far.link_gb_s)]
    xs = [x for line in lines for x, _ in line.points]
    ends = (min(xs, default=1), max(xs, default=1))
    lines += [Line(name, tuple((x, value) for x in ends), dashed=True) for name, value in levels if value]
    figure = chart("Bus bandwidth of collectives", lines, x_label="message size in bytes", y_label="busbw, GB/s")
    return {"bench.svg": as_svg(figure), "bench.png": as_png(figure)}


def _require(found: dict[str, Reach | None], at_least: float) -> None:
    """Check --at-least: CheckFailed below that share of plain TCP, or where it was not measured."""
    if not at_least:
        return
    bad = []
    for way, far in found.items():
        share = far.of_wire if far is not None else None
        if share is None:
            bad.append(f"{way}: its share of plain TCP was not measured")
        elif share < at_least:
            bad.append(f"{way}: {share:.3f} of plain TCP, and --at-least asks for {at_least:g}")
    if bad or not found:
        raise CheckFailed("\n".join(bad) or "nothing was measured", hint="what else runs on these hosts?")
