"""A log-log line chart as SVG text: bandwidth over message size. No library: it is a few lines and labels. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 80, 190, 40, 56
FONT = 'font-family="sans-serif" font-size="12"'
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the chart: (x, y) above zero. `dashed` for what is no measurement over x, as a link's own rate."""

    name: str
    points: tuple[tuple[float, float], ...]
    dashed: bool = False


def chart(title: str, lines: list[Line], *, x_label: str, y_label: str) -> str:
    """The document; lines without points are left out."""
    shown = [line for line in lines if line.points]
    xs = [x for line in shown for x, _ in line.points] or [1.0]
    ys = [y for line in shown for _, y in line.points] or [1.0]
    x_range, y_range = _powers(xs, 2), _powers(ys, 10)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
        *_x_axis(x_range, x_label),
        *_y_axis(y_range, y_label),
    ]
    for number, line in enumerate(shown):
        parts += _line(line, number, x_range, y_range)
    return "\n".join([*parts, "</svg>", ""])


def _powers(values: list[float], base: int) -> tuple[float, float]:
    """Logarithms of the range, widened to whole powers and never empty."""
    low, high = math.floor(math.log(min(values), base)), math.ceil(math.log(max(values), base))
    return (low * math.log(base), max(high, low + 1) * math.log(base))


def _place(value: float, span: tuple[float, float], start: float, end: float) -> float:
    return round(start + (math.log(value) - span[0]) / (span[1] - span[0]) * (end - start), 1)


def _x(value: float, span: tuple[float, float]) -> float:
    return _place(value, span, LEFT, WIDTH - RIGHT)


def _y(value: float, span: tuple[float, float]) -> float:
    return _place(value, span, HEIGHT - BOTTOM, TOP)


def _x_axis(span: tuple[float, float], label: str) -> list[str]:
    """A tick for every fourth power of two."""
    low, high = round(span[0] / math.log(2)), round(span[1] / math.log(2))
    parts = []
    for power in range(low, high + 1):
        if (power - low) % max(1, (high - low) // 7):
            continue
        at = _x(2.0**power, span)
        parts.append(f'<line x1="{at}" y1="{TOP}" x2="{at}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{at}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{_size(power)}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(label)}</text>']


def _size(power: int) -> str:
    unit = ("", "K", "M", "G", "T")[min(power // 10, 4)] if power >= 0 else ""
    return f"{2 ** (power - 10 * min(power // 10, 4)):g}{unit}"


def _y_axis(span: tuple[float, float], label: str) -> list[str]:
    parts = []
    for power in range(round(span[0] / math.log(10)), round(span[1] / math.log(10)) + 1):
        at = _y(10.0**power, span)
        parts.append(f'<line x1="{LEFT}" y1="{at}" x2="{WIDTH - RIGHT}" y2="{at}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{10.0**power:g}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 20 {middle})"'
    return [*parts, f'<text x="20" y="{middle}" text-anchor="middle" {turned}>{escape(label)}</text>']


def _line(line: Line, number: int, x_range: tuple[float, float], y_range: tuple[float, float]) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    stroke = f'stroke="{colour}" stroke-width="2"' + (' stroke-dasharray="6 4"' if line.dashed else "")
    points = " ".join(f"{_x(x, x_range)},{_y(y, y_range)}" for x, y in line.points)
    at = TOP + 14 + 20 * number
    legend = WIDTH - RIGHT + 14
    return [
        f'<polyline points="{points}" fill="none" {stroke}/>',
        f'<line x1="{legend}" y1="{at - 4}" x2="{legend + 22}" y2="{at - 4}" {stroke}/>',
        f'<text x="{legend + 28}" y="{at}">{escape(line.name)}</text>',
    ]
