"""The chart: well-formed, every line in it, places that follow the values."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from ddp_play.plot import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, chart

SVG = "{http://www.w3.org/2000/svg}"


def drawn(lines: list[Line]) -> ElementTree.Element:
    return ElementTree.fromstring(chart("a < b", lines, x_label="x", y_label="y"))


def points(root: ElementTree.Element) -> list[list[tuple[float, float]]]:
    """Of every polyline."""
    texts = [line.attrib["points"] for line in root.iter(f"{SVG}polyline")]
    return [[(float(x), float(y)) for x, y in re.findall(r"([\d.]+),([\d.]+)", text)] for text in texts]


def test_lines_are_inside_and_go_the_right_way() -> None:
    root = drawn([Line("busbw", ((8, 0.001), (4096, 0.1), (2**30, 1.2))), Line("link", ((8, 0.3), (2**30, 0.3)), True)])
    rising, level = points(root)
    assert [x for x, _ in rising] == sorted(x for x, _ in rising)
    assert [y for _, y in rising] == sorted((y for _, y in rising), reverse=True)  # y grows downwards
    assert level[0][1] == level[1][1]
    for x, y in [*rising, *level]:
        assert LEFT <= x <= WIDTH - RIGHT
        assert TOP <= y <= HEIGHT
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a < b", "x", "y", "busbw", "link"} <= set(texts)
    assert [line.get("stroke-dasharray") for line in root.iter(f"{SVG}polyline")] == [None, "6 4"]


def test_lines_without_points_and_nothing_at_all() -> None:
    assert points(drawn([Line("none", ()), Line("one", ((64.0, 1.0),))])) == [[(float(LEFT), float(HEIGHT - 56))]]
    assert points(drawn([])) == []
