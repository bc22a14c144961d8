"""Parts of the first page: what is counted, which columns there are, what is visible."""

from __future__ import annotations

from ddp_play.bundle.host_load import Load
from ddp_play.bundle.run_state import RunState
from ddp_play.cli.screen.ranks_page import (
    Size,
    columns_for,
    head,
    load_parts,
    log_panel,
    notes_rows,
    ranks_list,
    value_text,
    visible_ranks,
)
from ddp_play.cli.screen.screen_state import ScreenState, press
from ddp_play.cli.screen.styled_rows import Row
from ddp_play.cli.screen.text_pages import log_rows
from tests.unit.build import ib_host, plan
from tests.unit.cli.screen.states import BEGIN, NOW, ends, running

SIZE = Size(100, 12)


def texts(rows: list[Row]) -> list[str]:
    """The rows without styles."""
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_the_head_of_a_stopped_second_attempt() -> None:
    state = running()
    state.take_event({"time": BEGIN, "type": "restart", "attempt": 2, "reason": "x", "retired": {}, "new": []})
    state.take_event({"time": BEGIN, "type": "phase", "phase": "running"})
    state.take_event({"time": BEGIN, "type": "stop", "reason": "asked", "now": True, "grace_s": 0})
    lines = texts(head("night", state, ScreenState(), SIZE, now=NOW, created=BEGIN))
    assert lines[0].startswith(" night  stopping 1 min 0 s, attempt 2 ")
    assert lines[1] == "8 running  stopping: asked"


def test_another_curve_of_the_first_rank() -> None:
    lines = texts(head("night", running(), ScreenState(metric=1), SIZE, now=NOW, created=BEGIN))
    assert lines[2].startswith("samples_per_s 3457 ▁")


def test_a_loss_that_is_no_number_any_more_is_shown() -> None:
    state = running()
    state.metrics.add([{"time": NOW, "step": 600, "loss": float("nan")}], received=None)
    assert texts(head("night", state, ScreenState(), SIZE, now=NOW, created=BEGIN))[2].startswith("loss nan █")


def test_columns_have_values_and_room() -> None:
    state = running()
    assert [column.name for column in columns_for(state, 100, now=NOW)] == [
        *("rank", "state", "quiet", "step", "gpu%", "cpu", "mem"),
    ]
    assert [column.name for column in columns_for(state, 60, now=NOW)] == ["rank", "state", "quiet", "step"]
    for host in state.hosts.values():
        host.sample = {}
    assert [column.name for column in columns_for(state, 100, now=NOW)] == ["rank", "state", "quiet", "step"]


def test_a_quiet_rank() -> None:
    state = running()
    state.ranks[1].line_at = NOW - 137
    ends(state, 2, ok=True, how="")
    state.ranks[2].line_at = NOW - 137
    lines = texts(ranks_list(state, ScreenState(), SIZE, now=NOW))
    assert [line.split()[2] for line in lines[2:5]] == ["590", "2m", "590"], "only a running rank is quiet"


def test_only_visible_ranks_are_read() -> None:
    state, screen = running(2, 8), ScreenState()
    rows = texts(ranks_list(state, screen, Size(100, 6), now=NOW))
    assert len(rows) == 6
    assert rows[0].endswith("13 below")
    assert visible_ranks(state, screen) == [0, 1, 2, 3]
    press("end", state, screen)
    assert texts(ranks_list(state, screen, Size(100, 6), now=NOW))[0].endswith("13 above")
    assert visible_ranks(state, screen) == [11, 12, 13, 14, 15]


def test_the_panel_needs_room_and_a_rank() -> None:
    state = running()
    assert log_panel(state, ScreenState(), ["a"], Size(80, 4)) == [[]] * 4
    assert log_panel(RunState(), ScreenState(), ["a"], Size(80, 6)) == [[]] * 6
    assert texts(log_panel(state, ScreenState(), list("abcdef"), Size(80, 5))) == [
        "",
        "gpu1:0 last lines, l: whole screen",
        *"def",
    ]


def test_notes_on_a_high_terminal_only() -> None:
    state = running()
    for number in range(5):
        state.take_event({"time": BEGIN, "type": "warning", "message": str(number)})
    assert texts(notes_rows(state, Size(80, 24))) == ["warning: 2", "warning: 3", "warning: 4"]
    assert notes_rows(state, Size(80, 17)) == []


def test_only_what_is_known_of_a_load() -> None:
    assert load_parts(Load()) == []
    assert texts(load_parts(Load(cpu=1.25, memory=5e9, received=0.0, sent=12.0))) == [
        "cpu 1.2",
        "mem 5.0G",
        "in/out 0 12 B/s",
    ]


def test_counts_have_no_decimals() -> None:
    assert [value_text(12.0), value_text(0.25)] == ["12", "0.2500"]


def test_a_long_name_leaves_room_for_what_is_said_about_its_host() -> None:
    state, name = RunState(), "gpu-node-0001.rack17.datacenter-frankfurt.example.internal"
    state.take_event({"time": BEGIN, "type": "phase", "phase": "preparing"})
    state.take_plan(plan(ib_host(name, 1, num_gpus=2)).to_json(), at=BEGIN)
    state.take_event({"time": BEGIN, "type": "host", "host": name, "state": "silent"})
    size = Size(60, 12)
    assert "does not answer" in texts(head("night", state, ScreenState(), size, now=NOW, created=BEGIN))[1]
    row = texts(ranks_list(state, ScreenState(), size, now=NOW))[1]
    assert row == "- gpu-node-0001.rack17.datacent~  does not answer"
    assert texts(log_panel(state, ScreenState(), [], size))[1].startswith("gpu-node-0001.rack17.datacent~:0 last lines")
    assert texts(log_rows(state, ["a"], ScreenState(), size, run_id="night"))[0].startswith(
        " gpu-node-0001.rack17.datacent~:0 not started"
    )
