"""The page of a run: it is one whole file, and no text of a run becomes part of it. The only tests that draw."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from matplotlib.textpath import TextPath

from ddp_play.bundle.run_lookup import load
from ddp_play.report.report_data import report_document
from ddp_play.report.report_page import date, hardware_groups, report_page, span
from ddp_play.report.svg_charts import VARIABLES, panel_svg, shown, time_text

from .bundles import CREATED, ended_bundle, write_metrics, write_samples
from .hostile import BAD, MARKS, hostile_bundle
from .page_reader import PageReader, needs_nothing_else
from .test_run_attempts import restarted, without_end


def page(paths: Any) -> str:
    return report_page(report_document(load(paths)))


@pytest.fixture(scope="module")
def drawn() -> None:
    """matplotlib looks for fonts at its first figure."""
    panel_svg({"curves": [], "bands": [], "unit": ""}, length=1, number=0)


def full_bundle() -> Any:
    paths = ended_bundle(ranks_per_host=5)
    write_metrics(paths, range(10), length=50, every_s=1)
    write_samples(paths, length=60, every_s=2)
    return paths


@pytest.mark.usefixtures("drawn")
def test_it_needs_nothing_but_itself() -> None:
    text = page(full_bundle())
    reader = PageReader(text)
    needs_nothing_else(reader)
    policy = next(row for tag, row in reader.tags if row.get("http-equiv") == "Content-Security-Policy")
    assert re.fullmatch(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-[^']+'", str(policy["content"])
    )
    assert "http://" not in text.replace("http://www.w3.org/", "")
    assert "https://" not in text


@pytest.mark.usefixtures("drawn")
def test_it_says_what_happened() -> None:
    text = " ".join(PageReader(page(full_bundle())).text.split())
    for words in (
        "calm-otter-1 succeeded after 1 min 0 s: all 10 ranks exited 0", "10 ranks ok", "least to greatest of all 10",
        "CPU of a host", "eth0 carried", "step 299 loss 0.0033 on rank 9", "GLOO_SOCKET_IFNAME", "10 ranks started",
    ):  # fmt: skip
        assert words in text


@pytest.mark.usefixtures("drawn")
def test_a_metric_with_one_value_of_each_rank_is_in_a_table() -> None:
    paths = full_bundle()
    for rank, accuracy in ((0, 0.91), (1, 0.93)):
        with paths.metrics(rank).open("a") as file:
            file.write(json.dumps({"time": CREATED + 50, "accuracy": accuracy}) + "\n")
    text = page(paths)
    words = " ".join(PageReader(text).text.split())
    assert "Reported once Metric Ranks Least Greatest accuracy 2 0.91 0.93 Samples of the hosts" in words
    assert text.count("<figure") == text.count("data-panel=")
    assert "Reported once" not in page(full_bundle())


@pytest.mark.usefixtures("drawn")
def test_a_run_of_one_sample_has_a_table_and_no_charts_of_a_dot() -> None:
    paths = full_bundle()
    for path in (paths.samples("h1"), paths.samples("h2")):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    text = page(paths)
    words = " ".join(PageReader(text).text.split())
    assert "Sampled once Value Hosts or ranks Least Greatest" in words
    assert "CPU of a host" in words
    samples = text[text.index('id="samples"') : text.index('id="traffic"')]
    assert "<figure" not in samples


@pytest.mark.usefixtures("drawn")
def test_a_metric_that_became_nan_after_one_value_keeps_its_panel() -> None:
    paths = full_bundle()
    with paths.metrics(0).open("a") as file:
        for value in (0.91, float("nan"), float("nan")):
            file.write(json.dumps({"time": CREATED + 50, "accuracy": value}) + "\n")
    words = " ".join(PageReader(page(paths)).text.split())
    assert "2 values NaN or infinite, not drawn" in words
    assert "Reported once" not in words


@pytest.mark.usefixtures("drawn")
def test_a_run_that_nobody_supervises_says_who_takes_it_over() -> None:
    text = " ".join(PageReader(page(without_end(ended_bundle()))).text.split())
    assert "What helps: ddp-play attach calm-otter-1" in text


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("unit", "values", "ticks"),
    [
        ("cores", [], ["0"]),
        ("bytes/s", [0, 0], ["0 B/s"]),
        ("cores", [0, 0], ["0"]),
        ("bytes/s", [0, 2], ["0 B/s", "1 B/s", "2 B/s"]),
    ],
)
def test_no_two_values_at_an_axis_look_the_same(unit: str, values: list[float], ticks: list[str]) -> None:
    panel = {"curves": [{"name": "a", "times": [0, 1][: len(values)], "values": values}], "bands": [], "unit": unit}
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", panel_svg(panel, length=2.0, number=1))
    assert [text for text in texts if not re.fullmatch("[0-9.]+s", text)] == ticks


@pytest.mark.usefixtures("drawn")
def test_hostile_texts_stay_texts() -> None:
    text = page(hostile_bundle())
    reader = PageReader(text)
    needs_nothing_else(reader)
    assert [tag for tag, _ in reader.tags].count("script") == 1
    assert "alert" not in reader.script
    assert "<script>alert(1)</script>" in reader.text
    assert not any(mark in text for mark in MARKS)
    assert len(text) < 500_000


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    "make", [restarted, lambda: without_end(ended_bundle()), lambda: ended_bundle(ranks=[], verdict={})]
)
def test_runs_that_did_not_go_well(make: Any) -> None:
    needs_nothing_else(PageReader(page(make())))


@pytest.mark.usefixtures("drawn")
def test_curves_have_the_colours_of_the_page_and_ids_of_their_own() -> None:
    panel = {
        "curves": [{"name": BAD, "times": [0, 1], "values": [0.01, 0.02]}, {"name": "b", "times": [1], "values": [3]}],
        "bands": [{"times": [0, 1], "low": [0, 0], "high": [1, 1], "middle": [0.5, 0.5]}], "unit": "",
    }  # fmt: skip
    one, two = (panel_svg(panel, length=2.0, number=number) for number in (1, 2))
    assert not any(colour in one for colour in VARIABLES)
    assert {"var(--k0)", "var(--k1)", "var(--kb)"} <= set(re.findall(r"var\(--\w+\)", one))
    ids = [set(re.findall(r' id="([^"]+)"', svg)) for svg in (one, two)]
    assert ids[0].isdisjoint(ids[1])
    assert set(re.findall(r'data-c="(\d)"', one)) == {"0", "1"}
    assert "alert" not in one


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(("unit", "begins"), [("cores", "0"), ("", "1.99")])
def test_what_is_used_of_something_begins_at_zero(unit: str, begins: str) -> None:
    panel = {"curves": [{"name": "a", "times": [0, 1], "values": [1.99, 2.0]}], "bands": [], "unit": unit}
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", panel_svg(panel, length=2.0, number=1))
    assert next(text for text in texts if not text.endswith("s")) == begins


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (45, "45s"), (0.5, "0.5s"), (90, "1m 30s"), (7200, "2h"), (5400, "1h 30m"), (172800, "2d")],
)
def test_times_of_an_axis(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [("", 0.012345, "0.01235"), ("bytes", 2e9, "2.0 GB"), ("bytes/s", 5e6, "5.0 MB/s"), ("%", 97.0, "97")],
)
def test_values(unit: str, value: float, text: str) -> None:
    assert shown(unit)(value) == text


def test_hosts_with_the_same_hardware_are_named_together() -> None:
    gpus = {"0": {"name": "NVIDIA H100"}, "1": {"name": "NVIDIA H100"}}
    same = [{"host": name, "cores": 64, "memory_total": 5e11, "gpus": gpus} for name in ("h1", "h2")]
    assert hardware_groups([*same, {"host": "h3", "cores": 8, "gpus": {"0": 7}}, {"host": "h4"}]) == [
        (["h1", "h2"], "64 cores, 500 GB memory, 2 x NVIDIA H100"),
        (["h3"], "8 cores"),
    ]


def test_spans_and_dates() -> None:
    assert (span(1.234), span(75)) == ("1.23 s", "1 min 15 s")
    assert date(0) == "1970-01-01 00:00:00 UTC"
    assert date(1e300) == "at an unknown time"


@pytest.mark.parametrize(
    ("unit", "value", "tick"), [("bytes/s", 1300.0, "800 B/s"), ("", -1.2345e6, "-1.2e6"), ("", 1.3e-7, "1.2e-7")]
)
def test_what_stands_at_the_axes_of_a_panel_is_inside_of_it(unit: str, value: float, tick: str) -> None:
    curve = {"name": "h1", "attempt": 1, "times": [0.0, 91.0], "values": [0.0, value]}
    svg = panel_svg({"curves": [curve], "bands": [], "unit": unit}, length=91.7, number=1)
    width = float(svg.split('viewBox="0 0 ')[1].split()[0])
    texts = re.findall(r'<text style="[^"]*text-anchor: (\w+)[^"]*" x="([0-9.]+)"[^>]*>([^<]*)</text>', svg)
    assert {"1m 30s", tick} <= {text for _, _, text in texts}
    for anchor, x, text in texts:
        cells = TextPath((0, 0), text, size=9).get_extents().width
        left = float(x) - cells * {"end": 1.0, "middle": 0.5}[anchor]
        assert 0 <= left <= width - cells, text


def test_a_curve_from_zero_has_room_above_it() -> None:
    curve = {"name": "rank 0", "attempt": 1, "times": [0.0, 9.0], "values": [1e9, 1.0001e9]}
    svg = panel_svg({"curves": [curve], "bands": [], "unit": "bytes"}, length=10.0, number=1)
    highest = min(float(y) for y in re.findall(r"[ML] [0-9.]+ ([0-9.]+)", svg.split('data-c="0"')[1].split("</g>")[0]))
    assert highest > 10.0, "6.3 is the upper edge"
