"""Chart of bandwidth over message size, as SVG and PNG: logarithmic axes, drawn by matplotlib."""

from __future__ import annotations

import io
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from ddp_play.report.svg_charts import svg_text

INCHES, DOTS_PER_INCH = (8.0, 4.6), 144


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the chart; `points`: (x, y) above zero; `dashed`: a constant, such as the speed of a link."""

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


def chart(title: str, lines: list[Line], *, x_label: str, y_label: str) -> Figure:
    """Figure with these lines, x in bytes. Lines without points are left out."""
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
    """SVG file for browsers and reports. Its texts remain text, so that they can be searched."""
    return svg_text(figure).encode()


def as_png(figure: Figure) -> bytes:
    """PNG file for chats and tickets."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return buffer.getvalue()


def _size(num_bytes: float) -> str:
    """Short size for an axis: 4K for 4096."""
    unit = 0
    while num_bytes >= 1024 and unit < 4:
        num_bytes, unit = num_bytes / 1024, unit + 1
    return f"{num_bytes:g}{('', 'K', 'M', 'G', 'T')[unit]}"
