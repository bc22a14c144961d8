"""The screen of `ddp-play top`, against golden texts at three widths, and hostile answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from ddp_play.cli.screen.fleet_page import fleet_frame, fleet_lines, num_held, summary
from ddp_play.cli.screen.ranks_page import Size
from ddp_play.run.fleet_activity import host_row
from tests.unit.cli.screen.test_screen_frame import HOSTILE

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (60, 100, 200)


def run(name: str = "night", **fields: Any) -> dict[str, Any]:
    """A run of kim with two ranks."""
    row = {"run": name, "token": "t", "attempt": 1, "owner": "kim", "user": "kim", "age_s": 7300.0, "phase": "running"}
    ranks = {"ranks": {"running": 2}, "unreadable": "", "cpu": 1.5, "memory": 12e9, "slots": ["gpu-0", "gpu-1"]}
    return {**row, **ranks, **fields}


def fleet() -> dict[str, dict[str, Any]]:
    """Hosts with runs of several users, and one that does not answer."""
    load = {"cores": 64, "cpu": 12.5, "memory": 230e9, "memory_total": 512e9, "gpus": [97.0, 95.0, None, 0.0]}
    private = run("calm-otter-123", owner="pat", user="pat", token="", ranks={}, unreadable="private to pat")
    return {
        "gpu1": host_row({**load, "runs": [run(), private]}, slots=4),
        "gpu2": host_row({**load, "runs": [run(slots=["gpu-0"])], "slots_of_others": ["gpu-3"]}, slots=4),
        "login": host_row({"cores": 4, "cpu": 0.25, "runs": []}, slots=1),
        "gpu3": host_row({}, slots=None, problem="no route to host\nmore", hint="ssh gpu3"),
    }


def shown(size: Size, hosts: dict[str, dict[str, Any]], top: int = 0) -> list[str]:
    """The screen as text."""
    rows, _ = fleet_frame(hosts, size, top, seconds=1.0)
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def text_of(width: int) -> str:
    """The screen as one text."""
    return "\n".join(shown(Size(width, 14), fleet())) + "\n"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_screen(width: int) -> None:
    assert text_of(width) == (GOLDEN / f"top-{width}.txt").read_text(encoding="utf-8")


def test_what_is_counted() -> None:
    assert summary(fleet()) == "4 hosts  6 of 9 slots held  2 runs  gpu 64%  1 without an answer"
    assert summary({}) == "0 hosts  0 runs"
    assert num_held(fleet()["gpu2"]) == 2


def test_scrolling_ends_with_the_list() -> None:
    hosts = {f"h{number}": host_row({"cpu": 1.0, "runs": []}, slots=1) for number in range(50)}
    rows, top = fleet_frame(hosts, Size(80, 13), 10**6, seconds=None)
    assert top == 40
    assert len(rows) == 13
    assert "40 above" in shown(Size(80, 13), hosts, top)[1]
    assert fleet_frame(hosts, Size(80, 13), -5, seconds=None)[1] == 0


def test_old_answers_are_said_to_be_old() -> None:
    for seconds, text in ((None, "asking the hosts"), (3.0, ""), (61.0, "1m ago")):
        rows, _ = fleet_frame(fleet(), Size(100, 14), 0, seconds=seconds)
        assert rows[0][0][0].rstrip().endswith(text)


@pytest.mark.parametrize("size", [Size(60, 12), Size(1, 1), Size(200, 50)])
def test_nothing_that_a_host_answers_controls_the_screen(size: Size) -> None:
    hostile = run(HOSTILE, owner=HOSTILE, unreadable=HOSTILE, ranks={HOSTILE: 1})
    hosts = {
        HOSTILE: host_row({"runs": [hostile, run(ranks={HOSTILE: 1})], "slots_of_others": [HOSTILE]}, slots=1),
        "h2": host_row({}, slots=1, problem=HOSTILE),
    }
    for line in shown(size, hosts):
        assert line.isprintable()
        assert cell_len(line) <= size.width
    assert fleet_lines(hosts, 100)


def test_long_names_of_hosts_can_be_told_apart() -> None:
    names = [f"gpu-node-000{number}.rack17.datacenter.example.internal" for number in (1, 2)]
    hosts = {name: host_row({"cpu": 1.0, "cores": 8, "runs": []}, slots=1) for name in names}
    lines = [line for line in shown(Size(60, 14), hosts) if line.startswith("gpu-node")]
    assert lines == [f"gpu-node-000{number}.rack17.datacent~  slots 0/1  cpu 1.0/8" for number in (1, 2)]
    whole = ["".join(text for text, _ in row) for row in fleet_lines(hosts, 60)]
    assert whole == [f"{name}  slots 0/1  cpu 1.0/8" for name in names], "a table has room for the whole name"
