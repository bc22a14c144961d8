"""A log-log line chart, bandwidth over message size, as files for people: matplotlib draws, we choose what is on it."""

from __future__ import annotations

import io
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

INCHES, DOTS_PER_INCH = (8.0, 4.6), 144
# Nothing dated and nothing random: the same measurement draws the same file.
SVG_SETTINGS = {"svg.hashsalt": "ddp-play", "svg.fonttype": "none"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the chart: (x, y) above zero. `dashed` for what is no measurement over x, as a link's own rate."""

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


def chart(title: str, lines: list[Line], *, x_label: str, y_label: str) -> Figure:
    """The figure, x in bytes; lines without points are left out."""
    figure = Figure(figsize=INCHES, layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=10))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(visible=True, which="major", alpha=0.3)
    for line in lines:
        if line.points:
            xs, ys = zip(*line.points, strict=True)
            style = {"linestyle": "--"} if line.dashed else {"marker": "o", "markersize": 4}
            axes.plot(xs, ys, label=line.name, **style)
    if axes.lines:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def as_svg(figure: Figure) -> bytes:
    """For browsers and reports; its words stay words."""
    with mpl.rc_context(SVG_SETTINGS):  # type: ignore[arg-type] # a plain dict is what it takes
        return _saved(figure, "svg", {"Date": None})


def as_png(figure: Figure) -> bytes:
    """For chats and tickets."""
    return _saved(figure, "png", {"Software": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, str | None]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=metadata)
    return buffer.getvalue()


def _size(num_bytes: float) -> str:
    """4K for 4096."""
    unit = 0
    while num_bytes >= 1024 and unit < 4:
        num_bytes, unit = num_bytes / 1024, unit + 1
    return f"{num_bytes:g}{('', 'K', 'M', 'G', 'T')[unit]}"
