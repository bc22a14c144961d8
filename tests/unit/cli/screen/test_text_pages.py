"""Log, events and help: folding and scrolling."""

from __future__ import annotations

from ddp_play.cli.screen.ranks_page import Size
from ddp_play.cli.screen.screen_state import Page, ScreenState
from ddp_play.cli.screen.text_pages import events_rows, folded, help_rows, log_rows
from tests.unit.cli.screen.states import running

SIZE = Size(20, 4)


def lines(log: list[str], screen: ScreenState, size: Size = SIZE) -> list[str]:
    """The page of rank 0's log, without its title."""
    rows = log_rows(running(), log, screen, size, run_id="night")
    return ["".join(text for text, _ in row) for row in rows[1:]]


def test_long_lines_are_folded() -> None:
    assert folded("", 5) == [""]
    assert folded("abcdefg", 3) == ["abc", "def", "g"]
    assert folded("漢字漢", 5) == ["漢字", "漢"]
    assert lines(["first", "x" * 50], ScreenState(page=Page.LOG)) == ["x" * 20, "x" * 20, "x" * 10]


def test_scrolling_ends_at_the_first_line() -> None:
    screen = ScreenState(page=Page.LOG, back=2)
    assert lines(list("abcdefg"), screen) == ["c", "d", "e"]
    screen.back = 100
    assert lines(list("abcdefg"), screen) == ["a", "b", "c"]
    assert screen.back == 4
    assert screen.height == 3


def test_the_title_names_the_command_where_it_has_room() -> None:
    for width, has_room in ((100, True), (60, False)):
        rows = log_rows(running(), [], ScreenState(page=Page.LOG), Size(width, 4), run_id="night")
        assert rows[1] == [("no output yet", "dim")]
        title = "".join(text for text, _ in rows[0])
        assert title.startswith(" gpu1:0 running")
        assert ("ddp-play logs night --rank 0" in title) is has_room


def test_an_event_of_several_lines() -> None:
    state = running()
    state.take_event({"time": 0.0, "type": "warning", "message": "first\nsecond"})
    rows = events_rows(state, ScreenState(page=Page.EVENTS), Size(40, 3))
    assert ["".join(text for text, _ in row).strip() for row in rows[1:]] == ["warning: first", "second"]


def test_help_fits() -> None:
    assert len(help_rows(Size(60, 30))) == 30
    assert len(help_rows(Size(60, 5))) == 5
