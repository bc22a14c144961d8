"""Chart of bandwidths: its lines, its axis in bytes, and reproducible files."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from matplotlib.figure import Figure

from ddp_play.measuring.bandwidth_chart import Line, as_png, as_svg, chart

BUSBW = Line("busbw", ((8, 0.001), (4096, 0.1), (2**30, 1.2)))
LINK = Line("link", ((8, 0.3), (2**30, 0.3)), dashed=True)


def drawn(*lines: Line) -> Figure:
    return chart("a < b", list(lines), x_label="message size in bytes", y_label="GB/s")


def test_lines_are_what_was_measured() -> None:
    (axes,) = drawn(BUSBW, LINK, Line("none", ())).axes
    assert [np.asarray(line.get_xydata()).tolist() for line in axes.lines] == [
        [list(point) for point in line.points] for line in (BUSBW, LINK)
    ]
    assert [line.get_linestyle() for line in axes.lines] == ["-", "--"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["busbw", "link"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_sizes_are_written_as_people_say_them() -> None:
    words = "".join(ElementTree.fromstring(as_svg(drawn(BUSBW))).itertext())
    for word in ("a < b", "message size in bytes", "GB/s", "1G"):
        assert word in words


def test_the_same_measurement_draws_the_same_file() -> None:
    assert as_svg(drawn(BUSBW, LINK)) == as_svg(drawn(BUSBW, LINK))
    assert as_png(drawn(BUSBW, LINK)) == as_png(drawn(BUSBW, LINK))
    assert as_png(drawn(BUSBW)).startswith(b"\x89PNG")


def test_nothing_at_all() -> None:
    (axes,) = drawn().axes
    assert not axes.lines
    assert as_svg(drawn())
