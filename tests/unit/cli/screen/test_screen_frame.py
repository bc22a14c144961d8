"""The whole screen, against golden texts at three widths, and what it does with hostile texts and small terminals."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from rich.cells import cell_len

from ddp_play.bundle.run_state import RunState
from ddp_play.cli.screen.ranks_page import Size
from ddp_play.cli.screen.screen_frame import LEAST_HEIGHT, LEAST_WIDTH, Now, footer, frame
from ddp_play.cli.screen.screen_state import Page, Question, ScreenState
from tests.unit.build import hosts, plan
from tests.unit.cli.screen.states import BEGIN, NOW, ends, running, shown

GOLDEN = Path(__file__).parent / "golden"
SIZES = (Size(60, 24), Size(100, 24), Size(200, 24))
HOSTILE = "\x1b[2J\x1b]0;title\x07 \u202e evil \u200b\x9b31m \udcff\x00" + "e\u0301" * 3000 + "漢" * 3000


def failed() -> RunState:
    """A run of which one rank failed and one host is silent."""
    state = running()
    ends(state, 5)
    state.take_event({"time": BEGIN + 51, "type": "host", "host": "gpu1", "state": "silent", "why": ""})
    state.take_event({"time": BEGIN + 52, "type": "warning", "message": "gpu1: its disk is nearly full"})
    return state


def waiting() -> RunState:
    """A run that has a plan and waits for slots."""
    state = RunState()
    state.take_plan(plan(*hosts(2)).to_json(), at=BEGIN)
    reason = "gpu1: 0 of 8 slots free and 8 needed; held by run night of kim; first in the queue"
    state.take_event({"time": BEGIN, "type": "waiting", "reason": reason})
    return state


PAGES = {
    "running": (running, ScreenState()),
    "failed": (failed, ScreenState()),
    "folded": (failed, ScreenState(folded={"gpu1", "gpu2"})),
    "log": (failed, ScreenState(page=Page.LOG, rank=5)),
    "events": (failed, ScreenState(page=Page.EVENTS)),
    "help": (running, ScreenState(page=Page.HELP)),
    "waiting": (waiting, ScreenState()),
    "starting": (RunState, ScreenState()),
    "question": (running, ScreenState(question=Question.STOP)),
}


def text_of(name: str, size: Size) -> str:
    """A page of PAGES as text."""
    made, screen = PAGES[name]
    return "\n".join(shown(made(), screen, size)) + "\n"


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.localtime", time.gmtime)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size.width))
@pytest.mark.parametrize("name", PAGES)
def test_the_pages(name: str, size: Size) -> None:
    assert text_of(name, size) == (GOLDEN / f"{name}-{size.width}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [Size(LEAST_WIDTH, LEAST_HEIGHT), Size(1, 1), Size(7, 3), *SIZES, Size(400, 100)])
@pytest.mark.parametrize("name", PAGES)
def test_every_size_is_kept_to(name: str, size: Size) -> None:
    made, screen = PAGES[name]
    lines = shown(made(), screen, size)
    assert all(cell_len(line) <= size.width for line in lines)
    if size.height >= LEAST_HEIGHT:
        assert len(lines) == size.height


@pytest.mark.parametrize("page", list(Page))
@pytest.mark.parametrize("size", [Size(60, 20), Size(200, 60), Size(80, 24, ascii_only=True)])
def test_nothing_that_a_host_or_a_rank_writes_controls_the_screen(page: Page, size: Size) -> None:
    state = running()
    ends(state, 0, how=HOSTILE)
    for rank in state.ranks.values():
        rank.line = HOSTILE
    state.metrics.add([{HOSTILE: 1.0, "loss": 1e308}, {"loss": -1e308, "step": 10**400}], received=NOW)
    for event in (
        {"type": "warning", "message": HOSTILE},
        {"type": "stop", "now": False, "grace_s": 1, "reason": HOSTILE},
    ):
        state.take_event({"time": BEGIN, **event})
    state.hosts["gpu1"].problem = HOSTILE
    lines = [
        line
        for metric in (0, 1)
        for line in shown(state, ScreenState(page=page, metric=metric), size, log=(HOSTILE,) * 100)
    ]
    assert len(lines) == 2 * size.height
    for line in lines:
        assert line.isprintable(), line
        assert cell_len(line) <= size.width
        assert len(line) <= 4 * size.width, "combining marks are bounded too"
    assert "\u202e" not in "".join(lines)


def test_a_thousand_ranks_are_folded_and_failed_ones_are_first() -> None:
    state = running(128, 8)
    ends(state, 700)
    lines = shown(state, ScreenState(), Size(100, 40))
    assert "1024 ranks on 128 hosts" in lines[0]
    assert lines[1] == "1 failed  1023 running"
    assert lines[5].startswith("+ gpu88  1 failed  7 running")
    assert lines[6].split()[:2] == ["700", "failed"]
    assert lines[7].startswith("+ gpu1  8 running")


def test_the_keys_that_have_room() -> None:
    text = "".join(text for text, _ in footer(ScreenState(), 60))
    assert text == "? help  l log  e events  g hosts  d detach  s stop  q leave"


def test_styles_only_where_a_terminal_knows_them() -> None:
    rows = frame(failed(), ScreenState(), Size(100, 24), Now("r", BEGIN, NOW))
    known = {"", "bold", "dim", "title", "good", "bad", "warn", "note", "cursor"}
    assert {style for row in rows for _, style in row} <= known
