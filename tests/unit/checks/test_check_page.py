"""The page of a check: what it says, maps of the network, and texts of hosts that would change the page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.check_page import MOST_IN_MAP, page
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet
from ddp_play.checks.own_records import OwnRecords
from ddp_play.checks.record_findings import ComparedFigure, ComparedHost
from ddp_play.cli.check import document

from .fleets import fleet
from .matrices import matrix, with_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence

ABOUT = {"made": "2030-01-02 03:04:05 UTC", "took_s": 4.2, "command": "ddp-play check -i inv"}
NOTHING = OwnRecords((), ())
FAILED = Finding("ports", Status.FAIL, "timeout", "why", "do", ("h1", "h2"), directions=(("h2", "h1"),), limit="all",
                 source="a connection", others="0", look="nft list ruleset")  # fmt: skip
NOT_HERE = Finding("kernel log", Status.UNCHECKED, "this host is a container", where=("h1",))
BROKEN = Finding("shared disk", Status.UNCHECKED, "no answer within 8 s", where=("h2",), broken=True)
WARNED = Finding("mtu", Status.WARN, "1400", "why", "do", ("h3",))
PASSED = Finding("cpu", Status.OK, "128 of 128 CPUs", where=("h1", "h2", "h3"))


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside of the style sheet."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "tags are nested"

    def handle_data(self, data: str) -> None:
        self.text += f"{data} " if "style" not in self._open else ""


def read(checked: Fleet, found: Sequence[Finding] = (PASSED,), records: OwnRecords = NOTHING) -> Reader:
    reader = Reader()
    reader.feed(page(checked, document(tuple(found), "full", checked, records), ABOUT))
    reader.close()
    assert reader._open == []
    reader.text = re.sub(r"\s+", " ", reader.text)
    return reader


def cells(reader: Reader) -> dict[str, str]:
    """Class by title of all cells of the maps."""
    return {str(attributes["title"]): str(attributes["class"]) for tag, attributes in reader.tags
            if tag == "td" and "title" in attributes}  # fmt: skip


def test_it_needs_nothing_but_itself() -> None:
    reader = read(with_matrix(fleet(3)), [FAILED, WARNED, PASSED])
    assert {tag for tag, _ in reader.tags} & {"script", "link", "img", "iframe", "form", "object"} == set()
    assert {row["href"] for tag, row in reader.tags if tag == "a"} == {"#findings"}
    assert not any(name.startswith("on") or name == "src" for _, row in reader.tags for name in row)
    policy = next(row for tag, row in reader.tags if row.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((PASSED,), "All 3 hosts are fit for jobs."),
        ((PASSED, WARNED), "All 3 hosts are fit for jobs, with warnings about h3."),
        ((PASSED, NOT_HERE), "All 3 hosts are fit for jobs."),
        ((BROKEN, WARNED), "Nothing failed, but not everything is known. 1 check could not be made."),
        ((FAILED, BROKEN), "2 of 3 hosts are not fit for jobs: h1, h2. 1 check could not be made."),
    ],
)
def test_the_result_is_a_sentence(found: tuple[Finding, ...], says: str) -> None:
    assert f" {says} " in read(fleet(3), found).text


def test_a_finding_has_all_its_parts_and_comes_before_what_passed() -> None:
    text = read(fleet(3), [PASSED, NOT_HERE, WARNED, BROKEN, FAILED]).text.partition(" Findings ")[2]
    order = ["ports: h[1-2]", "h2 \N{RIGHTWARDS ARROW} h1", "all (a connection)", "nft list ruleset", "shared disk: h2",
             "mtu: h3", "1 passed", "128 of 128 CPUs", "1 without a value on these hosts"]  # fmt: skip
    assert sorted(order, key=text.index) == order
    assert "No check failed" in read(fleet(3), [PASSED, NOT_HERE]).text


def test_the_maps_show_rate_and_round_trip_of_each_direction() -> None:
    reader = read(with_matrix(
        fleet(3), h1_h2={"mbps": 450.0, "retransmits": 7}, h1_h3={"mbps": 12500.0, "busy": 0.9, "rtt_ms": 3.0},
        h2_h1={"mbps": None, "rtt_ms": None, "problem": "no time left"},
    ))  # fmt: skip
    found = cells(reader)
    assert found["h1 to h2: 450 Mb/s, 45% of the median, 7 sent again"] == "c4"
    assert found["h3 to h2: 1,000 Mb/s, 100% of the median, 0 sent again"] == "c0"
    assert found["h1 to h3: 12,500 Mb/s, 1250% of the median, 0 sent again; a CPU was the limit"] == "c0"
    assert found["h2 to h1: no time left"] == "none"
    assert found["h1 to h3: 3 ms median, 0.2 ms 99th percentile"] == "c4"
    assert found["h1 to h2: 0.1 ms median, 0.2 ms 99th percentile"] == "c0"
    assert "\N{GREATER-THAN OR EQUAL TO}12.5k" in reader.text
    assert [row["scope"] for tag, row in reader.tags if tag == "th" and row.get("scope") == "col"][:3] == ["col"] * 3


def test_a_large_fleet_has_its_slowest_directions_instead_of_a_map() -> None:
    names = [f"h{number}" for number in range(1, MOST_IN_MAP + 2)]
    known = matrix(*names, h5_h6={"mbps": 3.0})
    reader = read(Fleet(tuple(CheckedHost(name) for name in names), matrix=known))
    assert cells(reader) == {}
    assert f"The 20 slowest of {33 * 32} measured directions" in reader.text
    assert "From To Mb/s Round trip, ms h5 h6 3 0.1 " in reader.text


def test_a_bar_outside_the_band_says_so_in_words_too() -> None:
    reader = read(fleet(3, h2={"cpu.usable": 8}))
    assert "8 outside" in reader.text
    assert "Band: 128 to 128" in reader.text


def test_hosts_against_their_records() -> None:
    worse = ComparedFigure("rate: h2", "Mb/s", 940.0, 410.0, 799.0, "ddp-play", worse=True)
    records = OwnRecords(
        (ComparedHost("h1", "compared", "2030-01-01T00:00:00Z", figures=(worse,)),
         ComparedHost("h2", "expired", "2030-01-01T00:00:00Z", "kernel 6.1 -> 6.2"), ComparedHost("h3", "none")), (),
    )  # fmt: skip
    text = read(fleet(3), records=records).text
    assert "h1: 1 figure against 2030-01-01, 1 worse" in text
    assert "rate: h2 940 Mb/s 410 Mb/s 44 % 799 Mb/s" in text
    assert "h2: record of 2030-01-01 expired: kernel 6.1 -> 6.2" in text
    assert "h3:" not in text


def test_names_and_texts_of_hosts_cannot_change_the_page() -> None:
    bad = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202egnp{{ 7 * 7 }}\x1b[2J"
    row = Finding("x", Status.FAIL, bad, bad, bad, (bad,), directions=((bad, "h2"),), limit=bad, source=bad,
                  others=bad, look=bad)  # fmt: skip
    known: dict[str, Any] = matrix(bad, "h2")
    checked = Fleet((*fleet(2).hosts, CheckedHost(bad)), matrix=known)
    figure = ComparedFigure(bad, bad, 1.0, 1.0, 1.0, bad, worse=True)
    reader = read(checked, [row], OwnRecords((ComparedHost(bad, "compared", bad, figures=(figure,)),), ()))
    assert {tag for tag, _ in reader.tags} & {"script", "img"} == set()
    assert not any(name.startswith("on") for _, attributes in reader.tags for name in attributes)
    texts = reader.text + "".join(str(value) for _, attributes in reader.tags for value in attributes.values())
    assert "<script>alert(1)</script>" in texts
    assert "{{ 7 * 7 }}" in texts
    assert not re.search("[\u202e\x1b]", texts)
