"""Live view of a run. It only reads the run's bundle: if the view ends, the run goes on."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.markup import escape
from rich.text import Text

from ddp_play.bundle.event_texts import EventLine, Level, event_lines, plan_lines, shown_state
from ddp_play.bundle.file_tail import JsonTail, LineTail
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_lookup import Run
from ddp_play.bundle.summary import duration, number, summary
from ddp_play.cli import console
from ddp_play.cli.shown_ranks import unknown_ranks
from ddp_play.planning.plan_document import ranks_by_host
from ddp_play.run.engine_runs import load

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

TICK_S = 0.1
LINES_BEFORE = 10  # of each rank's log, which attach shows from before
HOST_COLOURS = ("cyan", "magenta", "green", "blue", "yellow", "bright_cyan", "bright_magenta", "bright_green")
STYLES = {Level.DETAIL: "dim", Level.NOTICE: "yellow", Level.WARNING: "bold yellow", Level.FAILURE: "bold red"}
PROGRESS = ("epoch", "step", "loss", "accuracy", "samples_per_s")


@dataclass
class View:
    """State of the screen, read from the bundle's files."""

    paths: RunPaths
    ranks_shown: str  # "0", "all", or numbers with commas
    started: float = field(default_factory=time.time)
    hosts: dict[int, str] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    tails: dict[int, LineTail] = field(default_factory=dict)
    phase: str = "starting"
    progress: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    unread: bool = False  # standard output takes nothing
    plan: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.events = JsonTail(self.paths.events)
        self.metrics = JsonTail(self.paths.metrics(0))
        self.live: Live | None = None
        # Read and not shown yet: Ctrl-C may interrupt the view at any time, and it goes on afterwards.
        self.unshown: deque[dict[str, Any]] = deque()
        self.lines: dict[int, deque[str]] = {}

    # -- reading the bundle --------------------------------------------------------------------------
    def catch_up(self) -> None:
        """Take in what has happened so far without showing it, except warnings and the last lines of logs."""
        self.unshown.extend(self.events.rows())
        while self.unshown:
            self.silent = self.unshown[0]["type"] != "warning"
            self._handle(self.unshown.popleft())
        self.silent = False
        for tail in self.tails.values():
            tail.skip_to_last(LINES_BEFORE)
        if self.tails:
            self._print(f"{self.phase}; all lines of before: ddp-play logs {self.paths.run_id}")

    def _handle(self, event: dict[str, Any]) -> None:
        handler = getattr(self, f"_on_{event['type']}", None)
        if handler is not None:
            handler(event)
        lines = event_lines(event)
        if event["type"] == "phase":
            lines = ([] if self.live is not None else lines) + self._plan_lines()
        for text, level in lines:
            self._print(text, style=STYLES[level])

    def refresh(self, *, last: bool = False) -> None:
        """Show all events, metrics and log lines that are new since the last call."""
        self.unshown.extend(self.events.rows())
        while self.unshown:
            self._handle(self.unshown.popleft())
        for row in self.metrics.rows():
            self.progress.update({key: row[key] for key in PROGRESS if isinstance(row.get(key), int | float)})
        for rank, tail in sorted(self.tails.items()):
            lines = self.lines.setdefault(rank, deque())
            more = True
            while more:  # of a rank that goes on printing one piece, so that the others are not kept waiting
                lines.extend(tail.some_lines())
                more = last and bool(lines)
                self._log_lines(rank, lines)
            lines.extend(tail.finish() if last else ())
            self._log_lines(rank, lines)
        if self.live is not None:
            self.live.update(self._status())

    def _log_lines(self, rank: int, lines: deque[str]) -> None:
        while lines:
            self._log_line(rank, lines.popleft())

    def _on_phase(self, event: dict[str, Any]) -> None:
        self.phase = event["phase"]
        if self.phase == "preparing":
            self._load_plan()

    def _load_plan(self) -> None:
        self.plan = plan = read_json(self.paths.plan)
        if words := unknown_ranks(self.ranks_shown, self.paths):
            self._print(words, style="bold yellow")
        for name, ranks in (ranks_by_host(plan) if plan else {}).items():
            for rank in ranks:
                self.hosts[rank] = name
                if self._is_shown(rank):
                    self.tails.setdefault(rank, LineTail(self.paths.log(rank)))

    def _plan_lines(self) -> list[EventLine]:
        return plan_lines(self.plan) if self.plan and self.phase == "preparing" else []

    def _is_shown(self, rank: int) -> bool:
        return self.ranks_shown == "all" or str(rank) in self.ranks_shown.split(",")

    def _on_rank(self, event: dict[str, Any]) -> None:
        self.states[event["rank"]] = shown_state(event)

    def _on_restart(self, event: dict[str, Any]) -> None:
        """Read the ended attempt's logs to their end in their new place, then follow the next attempt's."""
        moved = self.paths.attempt(event["attempt"] - 1)
        for rank, tail in sorted(self.tails.items()):
            for line in tail.finish_in(moved.log(rank)):
                self._log_line(rank, line)
        self.tails, self.states, self.hosts, self.progress = {}, {}, {}, {}
        self.metrics = JsonTail(self.paths.metrics(0))

    # -- printing ------------------------------------------------------------------------------------
    def _print(self, text: str, style: str = "dim") -> None:
        if self.silent:
            return
        console.err.print(f"[dim]{duration(time.time() - self.started):>7}[/] {escape(text)}", style=style)

    def _log_line(self, rank: int, line: str) -> None:
        if self.silent or self.unread:
            return
        try:
            self._show_log_line(rank, line)
        except OSError as error:  # a full disk, or the reader of a pipe has ended: the run goes on
            self.unread = True
            console.drop_results()
            text = f"standard output takes no more ({error.strerror}): ranks' output is not shown any more"
            self._print(f"{text}; ddp-play logs {self.paths.run_id} has all of it", style="bold yellow")

    def _show_log_line(self, rank: int, line: str) -> None:
        host = self.hosts.get(rank, "?")
        if not console.out.is_terminal:
            console.plain_line(f"{host}:{rank}: {line}")
            return
        colour = HOST_COLOURS[sorted(set(self.hosts.values())).index(host) % len(HOST_COLOURS)] if self.hosts else ""
        prefix = Text(f"{host}:{rank}: ", style=colour)
        # rich redraws the status line on stderr: lines for the same terminal must go through that console
        shared = self.live is not None and console.out.is_terminal
        (console.err if shared else console.out).print(prefix + Text(line), soft_wrap=True)

    def _status(self) -> Text:
        counts: dict[str, int] = {}
        for state in self.states.values():
            counts[state] = counts.get(state, 0) + 1
        text = Text(f" {self.paths.run_id} ", style="bold reverse")
        text.append(f" {self.phase} {duration(time.time() - self.started)} ")
        for state, style in (("running", "green"), ("exited", "blue"), ("stopped", "yellow"), ("failed", "bold red")):
            if counts.get(state):
                text.append(f" {counts[state]} {'done' if state == 'exited' else state}", style=style)
        for key in PROGRESS:
            if key in self.progress:
                text.append(f"  {key.replace('samples_per_s', 'samples/s')} ", style="dim")
                text.append(number(self.progress[key]))
        return text


def open_view(paths: RunPaths, *, ranks: str = "0", joined: bool = False) -> View:
    """The view of a run. `joined`: the run has begun before, and what has happened so far is not shown again."""
    view = View(paths, ranks)
    if joined:
        view.catch_up()
    view.started = read_json(paths.run).get("created") or view.started
    return view


def follow(view: View) -> Run:
    """Show a run until it is over or has no supervisor; return its last state.

    KeyboardInterrupt passes through; another call with the same view goes on where it ended.
    """
    if not console.err.is_terminal:
        return _until_over(view)
    try:
        with Live(view._status(), console=console.err, refresh_per_second=5, transient=True) as live:
            view.live = live
            return _until_over(view)
    finally:
        view.live = None


def _until_over(view: View) -> Run:
    while True:
        run = load(view.paths)
        view.refresh(last=run.over)
        if run.over or not run.attended:
            view.refresh(last=True)
            return run
        time.sleep(TICK_S)


def show_end(run: Run) -> int:
    """Print the summary of an ended run and return its exit code."""
    lines = summary(run.paths, run.document)
    good = run.exit_code == 0
    console.err.print(escape(lines[0]), style="bold green" if good else "bold red")
    for line in lines[1:]:
        console.err.print(escape(line), style="dim" if line.lstrip().startswith(("|", "bundle")) else "")
    return run.exit_code
