"""First page of the screen: what the run does, then a list of hosts and ranks. Pure: state in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.bundle.host_load import Load, host_load, mean, rank_load, total
from ddp_play.bundle.summary import counted, duration, number
from ddp_play.cli.screen.screen_state import HOST, Item, ScreenState, items, selected_rank, selection
from ddp_play.cli.screen.styled_rows import (
    BAD,
    BOLD,
    CURSOR,
    DIM,
    GOOD,
    NOTE,
    PLAIN,
    TITLE,
    WARN,
    Row,
    clean,
    cut,
    ends,
    filled,
    joined,
    padded,
    short_age,
    short_bytes,
    sparkline,
)

if TYPE_CHECKING:
    from ddp_play.bundle.run_state import Host, Rank, RunState

STATE_STYLES = {"running": GOOD, "failed": BAD, "stopped": WARN, "created": DIM, "exited": NOTE}
STATE_TEXTS = {"exited": "done", "created": "not started"}
NOTE_STYLES = {"detail": DIM, "notice": WARN, "warning": WARN, "failure": BAD}
# Metrics in the second line, as the view of lines shows them.
PROGRESS = ("epoch", "step", "samples_per_s", "accuracy", "loss")
LABELS = {"samples_per_s": "samples/s"}
SPARKLINE_CELLS = 24
LEAST_TEXT = 24  # cells of the last column
LEAST_PANEL = 5  # lines of the panel with the selected rank's log
NOTES_SHOWN, HEIGHT_WITH_NOTES = 3, 18


@dataclass(frozen=True, slots=True)
class Size:
    """Of the terminal; `ascii_only`: it shows no other characters."""

    width: int
    height: int
    ascii_only: bool = False


def head(run_id: str, state: RunState, screen: ScreenState, size: Size, *, now: float, created: float) -> list[Row]:
    """The lines above the list: title, ranks by state, metrics, load of all hosts."""
    phase = "stopping" if state.stopping and state.phase == "running" else state.phase
    attempt = f", attempt {state.attempt}" if state.attempt > 1 else ""
    title = f" {run_id}  {phase} {duration(max(0.0, now - created))}{attempt} "
    rows = [ends([(title, TITLE)], [(f"{_shape(state)} ", TITLE)], size.width, TITLE)]
    rows.append(joined(_counts(state, size), size.width))
    rows += [row for row in (_metrics(state, screen, size), _load(state, size)) if row]
    return rows


def _shape(state: RunState) -> str:
    if not state.plan:
        return ""
    ranks, hosts = counted(len(state.ranks), "rank"), counted(len(state.hosts), "host")
    return f"{ranks} on {hosts}, {state.plan.get('backend')} over {state.plan.get('fabric')}"


def host_text(name: str, size: Size) -> str:
    """The name of a host in at most half of the width: what is said about it must have room."""
    return cut(clean(name), size.width // 2)


def _counts(state: RunState, size: Size) -> list[Row]:
    found: list[Row] = [
        [(f"{count} {STATE_TEXTS.get(name, name)}", STATE_STYLES.get(name, PLAIN))]
        for name, count in state.counts().items()
    ]
    silent = [host for host in state.hosts.values() if host.problem]
    if silent:
        named = host_text(silent[0].name, size) if len(silent) == 1 else counted(len(silent), "host")
        found.insert(0, [(f"{named} {silent[0].problem}", BAD)])
    if state.stopping:
        found.append([(f"stopping: {state.stopping}", WARN)])
    return found


def _metrics(state: RunState, screen: ScreenState, size: Size) -> Row:
    """Progress of rank 0, and the curve of one of its metrics; the key m chooses another one."""
    metrics = state.metrics
    names = [name for name in PROGRESS if name in metrics.series]
    curves = metrics.curves()
    chosen = curves[screen.metric % len(curves)] if curves else ""
    parts: list[Row] = []
    if chosen:
        line = sparkline(metrics.series[chosen].points(SPARKLINE_CELLS), ascii_only=size.ascii_only)
        parts.append([(f"{chosen[:20]} ", DIM), (f"{number(metrics.series[chosen].last)} ", BOLD), (line, NOTE)])
    if (rate := metrics.steps_per_s()) is not None:
        parts.append([(f"{rate:.3g}", BOLD), (" steps/s", DIM)])
    for name in names:
        if name != chosen:
            parts.append([(f"{LABELS.get(name, name)} ", DIM), (value_text(metrics.series[name].last), BOLD)])
    return joined(parts, size.width)


def value_text(value: float) -> str:
    """A metric for display; counts have no decimals."""
    return f"{value:.0f}" if value.is_integer() else number(value)


def _load(state: RunState, size: Size) -> Row:
    """Load of all hosts together."""
    loads = [_host_load(host) for host in state.hosts.values()]
    cpu, cores = total(load.cpu for load in loads), total(load.cores for load in loads if load.cpu is not None)
    merged = Load(
        cpu,
        cores,
        total(load.memory for load in loads),
        total(load.memory_total for load in loads if load.memory is not None),
        mean(load.gpu for load in loads),
        total(load.received for load in loads),
        total(load.sent for load in loads),
    )
    parts = load_parts(merged)
    return joined([[("all hosts", DIM)], *parts], size.width) if parts and len(loads) > 1 else []


def _host_load(host: Host) -> Load:
    return host_load(host.header, host.sample, interface=host.interface)


def load_parts(load: Load) -> list[Row]:
    """CPU, GPU, memory and traffic, as far as they are known."""
    parts: list[Row] = []
    if load.gpu is not None:
        parts.append([("gpu ", DIM), (f"{load.gpu:.0f}%", BOLD)])
    if load.cpu is not None:
        of = f"/{load.cores:.0f}" if load.cores else ""
        parts.append([("cpu ", DIM), (f"{load.cpu:.1f}{of}", BOLD)])
    if load.memory is not None:
        of = f"/{short_bytes(load.memory_total)}" if load.memory_total else ""
        parts.append([("mem ", DIM), (f"{short_bytes(load.memory)}{of}", BOLD)])
    if load.received is not None and load.sent is not None:
        traffic = f"{short_bytes(load.received)} {short_bytes(load.sent)}"
        parts.append([("in/out ", DIM), (traffic, BOLD), (" B/s", DIM)])
    return parts


# -- the list ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ranks: its name, its width and its text."""

    name: str
    width: int
    text: Callable[[RunState, Rank, float], str]

    @property
    def right(self) -> bool:
        """Numbers end at the right."""
        return self.name != "state"


def _load_of(state: RunState, rank: Rank) -> Load:
    host = state.hosts[rank.host]
    return rank_load(host.sample, rank.number, host.gpus_of(rank.number))


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


COLUMNS = (
    Column("rank", 6, lambda _state, rank, _now: str(rank.number)),
    Column("state", 11, lambda _state, rank, _now: STATE_TEXTS.get(rank.state, rank.state)),
    Column("quiet", 5, lambda _state, rank, now: _quiet(rank, now)),
    Column("step", 7, lambda _state, rank, _now: _figure(rank.step, ".0f")),
    Column("gpu%", 5, lambda state, rank, _now: _figure(_load_of(state, rank).gpu, ".0f")),
    Column("cpu", 5, lambda state, rank, _now: _figure(_load_of(state, rank).cpu, ".1f")),
    Column("mem", 5, lambda state, rank, _now: _bytes(_load_of(state, rank).memory)),
)
ALWAYS = ("rank", "state", "quiet")
QUIET_STEP_S = 5.0  # a text that changes each second costs a slow line its bytes


def _quiet(rank: Rank, now: float) -> str:
    """How long a running rank has been quiet, in steps of 5 s."""
    steps = (now - rank.line_at) // QUIET_STEP_S if rank.line_at and rank.state == "running" else 0
    return short_age(steps * QUIET_STEP_S) if steps > 0 else ""


def _bytes(value: float | None) -> str:
    return "" if value is None else short_bytes(value)


def columns_for(state: RunState, width: int, *, now: float) -> list[Column]:
    """The columns that have values and room; the last line of output gets what is left."""
    room = width - LEAST_TEXT
    found = []
    for column in COLUMNS:
        has_values = column.name in ALWAYS or any(column.text(state, rank, now) for rank in state.ranks.values())
        if has_values and column.width + 1 <= room:
            found.append(column)
            room -= column.width + 1
    return found


def ranks_list(state: RunState, screen: ScreenState, size: Size, *, now: float) -> list[Row]:
    """Header and visible lines of the list, at most `size.height` rows; sets what is visible."""
    lines = items(state, screen)
    screen.height = max(1, size.height - 1)
    place = selection(lines, screen)
    if screen.selected is None:
        screen.top = 0
    screen.top = min(max(screen.top, place - screen.height + 1), place, max(0, len(lines) - screen.height))
    visible = lines[screen.top : screen.top + screen.height]
    columns = columns_for(state, size.width, now=now)
    header = "".join(padded(column.name, column.width, right=column.right) + " " for column in columns)
    below = len(lines) - screen.top - len(visible)
    rows: list[Row] = [ends([(f"{header} last line", DIM)], [(_more(screen.top, below), DIM)], size.width, DIM)]
    for index, item in enumerate(visible):
        row = _item_row(item, state, screen, columns, size, now)
        rows.append(filled(row, size.width, CURSOR) if screen.top + index == place else row)
    return rows


def log_panel(state: RunState, screen: ScreenState, log: Sequence[str], size: Size) -> list[Row]:
    """Last lines of the selected rank's log in the space below the list, exactly `size.height` rows."""
    rank = state.ranks.get(selected_rank(state, screen))
    if rank is None or size.height < LEAST_PANEL:
        return [[] for _ in range(size.height)]
    lines = [[(clean(line), PLAIN)] for line in log[-(size.height - 2) :]]
    title: Row = [(f"{host_text(rank.host, size)}:{rank.number} ", BOLD), ("last lines, l: whole screen", DIM)]
    rows: list[Row] = [[], title, *lines]
    return rows + [[] for _ in range(size.height - len(rows))]


def _more(above: int, below: int) -> str:
    texts = [f"{number} {where}" for number, where in ((above, "above"), (below, "below")) if number]
    return ", ".join(texts)


def visible_ranks(state: RunState, screen: ScreenState) -> list[int]:
    """The ranks whose lines were shown last, whose logs are to be read."""
    shown: list[Item] = items(state, screen)[screen.top : screen.top + screen.height]
    return [rank for _, rank in shown if rank != HOST]


def _item_row(item: Item, state: RunState, screen: ScreenState, columns: list[Column], size: Size, now: float) -> Row:
    name, number_of_rank = item
    if number_of_rank == HOST:
        return _host_row(state.hosts[name], state, screen, size)
    rank = state.ranks[number_of_rank]
    row: Row = []
    for column in columns:
        style = STATE_STYLES.get(rank.state, PLAIN) if column.name == "state" else PLAIN
        row.append((padded(column.text(state, rank, now), column.width, right=column.right) + " ", style))
    text = f"{rank.how}: {rank.line}" if rank.bad and rank.how else rank.line
    return joined([[*row, (" " + clean(text), BAD if rank.bad else PLAIN)]], size.width)


def _host_row(host: Host, state: RunState, screen: ScreenState, size: Size) -> Row:
    folded = host.name in (screen.folded or ())
    ranks = [state.ranks[number] for number in host.ranks]
    counts: dict[str, int] = {}
    for rank in ranks:
        counts[rank.state] = counts.get(rank.state, 0) + 1
    name: Row = [(f"{'+' if folded else '-'} ", DIM), (host_text(host.name, size), BOLD)]
    parts: list[Row] = [name]
    if host.problem:
        parts.append([(host.problem, BAD)])
    ordered = sorted(counts, key=lambda name: name != "failed")
    parts += [[(f"{counts[name]} {STATE_TEXTS.get(name, name)}", STATE_STYLES.get(name, PLAIN))] for name in ordered]
    return joined([*parts, *load_parts(_host_load(host))], size.width)


def notes_rows(state: RunState, size: Size) -> list[Row]:
    """The last lines about events, if the terminal has room for them."""
    if size.height < HEIGHT_WITH_NOTES:
        return []
    last = [note for note in state.notes if note.level != "detail"][-NOTES_SHOWN:]
    return [joined([[(clean(note.text), NOTE_STYLES[note.level])]], size.width) for note in last]
