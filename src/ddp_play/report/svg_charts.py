"""Panels of curves over time as SVG that takes the colours of its page, drawn by matplotlib.

Titles, legends and figures are in the page around it, so that they wrap on a narrow screen and can be read aloud.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from ddp_play.bundle.network_traffic import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.axes import Axes

INCHES, DOTS_PER_INCH = (5.2, 2.2), 100
# Colours that stand for variables of the page's style sheet: matplotlib writes them, and they are replaced afterwards.
CURVES = tuple(f"#0000{number:02x}" for number in range(1, 9))
BAND, TEXT, GRID = "#000010", "#000011", "#000012"
VARIABLES = {**{colour: f"var(--k{number})" for number, colour in enumerate(CURVES)},
             BAND: "var(--kb)", TEXT: "var(--dim)", GRID: "var(--line)"}  # fmt: skip
NUMBER = re.compile(r"(\d+\.\d)\d+")
TAG = re.compile(r"<[^>]+>")
EXPONENT = re.compile(r"e([+-]\d+)$")
COLOUR = re.compile("|".join(VARIABLES))
HEAD = re.compile(r"^.*?<svg [^>]*>", re.DOTALL)
SIZE = re.compile(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"')
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)
# What is used of something: half of it should look like half of it.
FROM_ZERO = frozenset({"%", "cores", "bytes", "bytes/s", "W"})
ABOVE = 0.05  # room above the greatest value, as a part of it
SETTINGS = {"svg.fonttype": "none", "path.simplify": False}


def panel_svg(document: Mapping[str, Any], *, length: float, number: int) -> Markup:
    """The panel as an `svg` element. `length`: seconds of the time axis; `number`: of the panel in its page."""
    figure = Figure(figsize=INCHES, dpi=DOTS_PER_INCH)
    axes = figure.add_axes((0.16, 0.14, 0.79, 0.82))
    names = list(dict.fromkeys(curve["name"] for curve in document["curves"]))
    for band in document["bands"]:
        axes.fill_between(band["times"], band["low"], band["high"], color=BAND, alpha=0.25, linewidth=0)
        axes.plot(band["times"], band["middle"], color=BAND, linewidth=1.2)
    for curve in document["curves"]:
        at = names.index(curve["name"])
        marker = "o" if len(curve["times"]) == 1 else None
        style: dict[str, Any] = {"color": CURVES[at % len(CURVES)], "linewidth": 1.2, "marker": marker, "markersize": 3}
        (line,) = axes.plot(curve["times"], curve["values"], **style)
        line.set_gid(f"curve-{at}")
    _style(axes, document["unit"], max(length, 1e-3))
    return _for_page(svg_text(figure, salt=f"ddp-play-{number}", transparent=True), number)


def svg_text(figure: Figure, *, salt: str = "ddp-play", transparent: bool = False) -> str:
    """SVG whose texts remain text, without dates and random ids: the same figure gives the same file."""
    settings: dict[str, Any] = {**SETTINGS, "svg.hashsalt": salt}
    with mpl.rc_context(settings):  # type: ignore[arg-type] # a plain dict works
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=transparent)
    return buffer.getvalue()


def _style(axes: Axes, unit: str, length: float) -> None:
    axes.set_xlim(0, length)
    found = axes.dataLim.ymax
    greatest = found if math.isfinite(found) and found > 0 else 0.0  # infinite without any value
    if unit in FROM_ZERO:
        axes.set_ylim(0, (1 + ABOVE) * greatest or 1)
    step = next((step for step in STEPS if length / step <= 6), STEPS[-1])
    axes.set_xticks([step * number for number in range(int(length / step) + 1)])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    is_zero = unit in FROM_ZERO and not greatest
    axes.yaxis.set_major_locator(FixedLocator([0]) if is_zero else MaxNLocator(4, integer=unit.startswith("bytes")))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value, unit)))
    _style_lines(axes)


def _style_lines(axes: Axes) -> None:
    """Ticks, grid and frame of the axes."""
    axes.tick_params(which="both", colors=TEXT, labelsize=9, length=3)
    axes.grid(visible=True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GRID)


def page_svg(figure: Figure, number: int) -> Markup:
    """A figure as an `svg` element in the page's colours, without its title and its legend."""
    for axes in figure.axes:
        axes.set_title("")
        if legend := axes.get_legend():
            legend.remove()
        for at, line in enumerate(axes.lines):
            line.set_color(CURVES[at % len(CURVES)])
        for label in (axes.xaxis.label, axes.yaxis.label):
            label.set_color(TEXT)
        _style_lines(axes)
    return _for_page(svg_text(figure, salt=f"ddp-play-{number}", transparent=True), number)


def _for_page(text: str, number: int) -> Markup:
    """One `svg` element without what a page does not need, in the page's colours, with ids of its own."""
    size = SIZE.search(text)
    box = f"0 0 {size[1]} {size[2]}" if size else ""
    body = HEAD.sub("", text, count=1)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style.*?</style>", "", body, flags=re.DOTALL)
    body = TAG.sub(lambda match: NUMBER.sub(r"\1", match[0]), body).replace(" \n", " ").replace("\n", " ")
    body = COLOUR.sub(lambda match: VARIABLES[match[0]], body)
    body = re.sub(r' id="curve-(\d+)"', r' data-c="\1"', body)
    body = re.sub(r' id="(?!m[0-9a-f]{10}|p[0-9a-f]{10})[^"]*"', "", body)
    # matplotlib escapes the texts that it writes; none of them is a text of a host
    return Markup(f'<svg viewBox="{box}" aria-hidden="true" data-panel="{number}">{body}')  # noqa: S704


def time_text(seconds: float) -> str:
    """Time since the run was created, for an axis: 45s, 12m, 1h 30m, 2d."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s" if abs(seconds - whole) < 0.05 else f"{seconds:.1f}s"
    parts = ((whole // 86400, "d"), (whole % 86400 // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return " ".join([f"{count}{unit}" for count, unit in parts if count][:2])


def tick_text(value: float, unit: str) -> str:
    """A value at an axis, in few characters: 800 B/s, 1.235e6."""
    text = shown(unit)(value).replace("bytes", "B")
    return EXPONENT.sub(lambda match: f"e{int(match[1])}", text)


def shown(unit: str) -> Callable[[float], str]:
    """How a value of this unit is written."""
    if unit == "bytes":
        return bytes_text
    if unit == "bytes/s":
        return lambda value: f"{bytes_text(value)}/s"
    return lambda value: f"{value:.4g}"
