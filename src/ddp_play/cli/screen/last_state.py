"""What stays on the normal screen after the full-screen view: lines with rich's styles. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.event_texts import Level
from ddp_play.bundle.summary import counted
from ddp_play.cli.screen.ranks_page import LABELS, PROGRESS, STATE_TEXTS, value_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ddp_play.bundle.run_state import Rank, RunState

MAX_NOTES, MAX_RANKS, MAX_LINES = 20, 16, 10
NOTE_STYLES = {Level.NOTICE: "yellow", Level.WARNING: "bold yellow", Level.FAILURE: "bold red"}
# A line and its style.
Line = tuple[str, str]


def last_state(state: RunState, log: Iterable[tuple[str, str]] = ()) -> list[Line]:
    """Warnings and failures of the run, its ranks by state, its progress, and lines of `log`: (`host:rank`, line)."""
    notes = [note for note in state.notes if note.level is not Level.DETAIL]
    lines: list[Line] = [(text, "dim") for text in _left_out(len(notes) - MAX_NOTES, "earlier event")]
    lines += [(note.text, NOTE_STYLES[note.level]) for note in notes[-MAX_NOTES:]]
    lines += [(f"{where}: {text}", "") for where, text in log]
    bad = [rank for rank in state.ranks.values() if rank.bad]
    lines += [(_described(rank), "") for rank in bad[:MAX_RANKS]]
    lines += [(text, "dim") for text in _left_out(len(bad) - MAX_RANKS, "failed rank")]
    if summary := _summary(state):
        lines.append((summary, "dim"))
    return lines


def _left_out(count: int, what: str) -> Sequence[str]:
    return [f"and {counted(count, what)}"] if count > 0 else []


def _described(rank: Rank) -> str:
    last = f"; its last line: {rank.line}" if rank.line else ""
    return f"{rank.host}:{rank.number} {STATE_TEXTS.get(rank.state, rank.state)}, {rank.how}{last}"


def _summary(state: RunState) -> str:
    counts = [f"{count} {STATE_TEXTS.get(name, name)}" for name, count in state.counts().items()]
    series = state.metrics.series
    values = [f"{LABELS.get(name, name)} {value_text(series[name].last)}" for name in PROGRESS if name in series]
    return f"ranks: {', '.join(counts)}  {'  '.join(values)}".strip() if counts else ""
