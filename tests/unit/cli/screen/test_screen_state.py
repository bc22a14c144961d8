"""Keys: what they select, open, fold and ask."""

from __future__ import annotations

import pytest

from ddp_play.bundle.run_state import RunState
from ddp_play.cli.screen.screen_state import (
    HOST,
    Action,
    Page,
    Question,
    ScreenState,
    items,
    press,
    selected_rank,
    selection,
)
from tests.unit.cli.screen.states import ends, running


def pressed(*keys: str, state: RunState | None = None, screen: ScreenState | None = None) -> ScreenState:
    """The screen after these keys, none of which leaves it."""
    found = screen or ScreenState()
    for key in keys:
        assert press(key, state or running(), found) is Action.NONE, key
    return found


def asked(screen: ScreenState) -> str:
    """What the last line asks."""
    return screen.question


def test_the_list_has_hosts_and_their_ranks() -> None:
    assert items(running(2, 2), ScreenState()) == [
        ("gpu1", HOST),
        ("gpu1", 0),
        ("gpu1", 1),
        ("gpu2", HOST),
        ("gpu2", 2),
        ("gpu2", 3),
    ]
    assert items(RunState(), ScreenState()) == []


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        (["j"], ("gpu1", 1)),
        (["down", "down", "k"], ("gpu1", 1)),
        (["k", "up", "up"], ("gpu1", HOST)),
        (["end"], ("gpu2", 7)),
        (["end", "home"], ("gpu1", HOST)),
        (["pagedown"], ("gpu2", 7)),
        (["j", "g"], ("gpu1", 1)),
        (["x"], None),
    ],
)
def test_moving(keys: list[str], selected: tuple[str, int] | None) -> None:
    assert pressed(*keys).selected == selected


def test_the_selection_stays_on_its_rank_when_the_order_changes() -> None:
    state, screen = running(), ScreenState()
    pressed("j", state=state, screen=screen)
    ends(state, 6)
    rows = items(state, screen)
    assert rows[:2] == [("gpu2", HOST), ("gpu2", 6)]
    assert rows[selection(rows, screen)] == ("gpu1", 1)


def test_folding() -> None:
    state, screen = running(), ScreenState()
    pressed("home", "enter", state=state, screen=screen)
    assert screen.folded == {"gpu1"}
    assert ("gpu1", 0) not in items(state, screen)
    ends(state, 2)
    assert ("gpu1", 2) in items(state, screen), "a failed rank is shown in a folded host too"
    assert screen.selected == ("gpu1", HOST)
    pressed("g", state=state, screen=screen)
    assert screen.folded == set()
    pressed("g", state=state, screen=screen)
    assert screen.folded == {"gpu1", "gpu2"}


def test_a_rank_in_a_folded_host_is_its_host() -> None:
    state, screen = running(), ScreenState()
    pressed("j", "g", state=state, screen=screen)
    rows = items(state, screen)
    assert rows[selection(rows, screen)] == ("gpu1", HOST)
    assert selected_rank(state, screen) == 0
    assert selected_rank(RunState(), ScreenState()) == -1


@pytest.mark.parametrize(
    ("keys", "page", "rank"),
    [
        (["enter"], Page.LOG, 0),
        (["end", "l"], Page.LOG, 7),
        (["home", "l"], Page.LOG, 0),
        (["l", "right"], Page.LOG, 1),
        (["l", "left"], Page.LOG, 7),
        (["l", "q"], Page.RANKS, 0),
        (["l", "escape"], Page.RANKS, 0),
        (["e"], Page.EVENTS, 0),
        (["e", "e"], Page.RANKS, 0),
        (["?"], Page.HELP, 0),
        (["?", "e"], Page.EVENTS, 0),
    ],
)
def test_pages(keys: list[str], page: Page, rank: int) -> None:
    screen = pressed(*keys)
    assert (screen.page, screen.rank) == (page, rank)


def test_scrolling_in_a_text() -> None:
    screen = pressed("l", "up", "up", "down", "pageup")
    assert screen.back == 1 + screen.height
    assert pressed("end", screen=screen).back == 0
    assert pressed("up", "right", screen=screen).back == 0, "another rank's log begins at its end"


@pytest.mark.parametrize("page", list(Page))
def test_stop_needs_a_yes(page: Page) -> None:
    state, screen = running(), ScreenState(page=page)
    for answer in ("n", "enter", "s", "escape"):
        pressed("s", state=state, screen=screen)
        assert asked(screen) == Question.STOP
        pressed(answer, state=state, screen=screen)
        assert asked(screen) == Question.NONE
    press("s", state, screen)
    assert press("y", state, screen) is Action.STOP


def test_a_second_stop_is_one_without_grace() -> None:
    state, screen = running(), ScreenState()
    state.take_event({"time": 1.0, "type": "stop", "reason": "asked", "grace_s": 30, "now": False})
    pressed("s", state=state, screen=screen)
    assert asked(screen) == Question.STOP_NOW
    assert press("y", state, screen) is Action.STOP_NOW


def test_leaving() -> None:
    state, screen = running(), ScreenState()
    assert press("d", state, screen) is Action.DETACH
    pressed("q", "x", state=state, screen=screen)
    assert asked(screen) == Question.NONE
    press("q", state, screen)
    assert press("d", state, screen) is Action.DETACH
    pressed("q", "s", state=state, screen=screen)
    assert asked(screen) == Question.STOP
    assert press("y", state, screen) is Action.STOP


def test_another_curve() -> None:
    assert pressed("m", "m").metric == 2


@pytest.mark.parametrize("key", ["j", "enter", "l", "g", "home", "pageup"])
def test_keys_before_there_are_ranks(key: str) -> None:
    assert pressed(key, state=RunState()) == ScreenState()
