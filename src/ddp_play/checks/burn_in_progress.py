"""What a burn-in has found so far, in files: rounds to show while it runs, and all of it where it is interrupted."""

from __future__ import annotations

import contextlib
import statistics
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.summary import duration
from ddp_play.checks.torch_load import CPU_FIGURES, FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

PARTIAL, ROUNDS = "partial.json", "rounds.txt"
POLL_S = 0.5
INTERRUPTED = "interrupted"


def keep(directory: Path, document: Mapping[str, Any], text: str) -> None:
    """Write the document of the check so far, and a line about its last round."""
    write_json(directory / PARTIAL, dict(document), indent=None)
    with (directory / ROUNDS).open("a", encoding="utf-8") as file:
        file.write(text + "\n")


def keep_round_of(
    directory: str, so_far: Callable[[], dict[str, Any]], burn_in: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    """Keep what a check has after a round, where there is a directory for it. `so_far`: all but the burn-in.

    The burn-in goes on where the disk is full: what is kept is for the case that it does not come to its end.
    """
    if not directory:
        return
    with contextlib.suppress(OSError):
        keep(Path(directory), {**so_far(), "burn_in": burn_in, "late": ""}, line(burn_in, found))


def kept(directory: Path, ended: str = INTERRUPTED) -> dict[str, Any]:
    """The document of a check that did not come to its end; empty if no round had ended. `ended`: why."""
    document = read_json(directory / PARTIAL)
    return {**document, "burn_in": {**document["burn_in"], "ended": ended}} if document else {}


def line(document: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """A round in words: how fast, who was slowest, the group, and what was wrong."""
    number, hosts = int(found["round"]), document["hosts"]
    parts = [_speed(hosts), _group(document)]
    wrong = [f"{name}: {row['wrong'][-1][2]}" for name, row in hosts.items() if _is_last(row["wrong"], number)]
    problems = [f"{name}: {row['problems'][-1][1]}" for name, row in hosts.items() if _is_last(row["problems"], number)]
    if _is_last(document["group"]["problems"], number):
        problems.append(str(document["group"]["problems"][-1][1]))
    said = "; ".join(part for part in (*parts, *wrong[:3], *problems[:3]) if part)
    return f"burn-in {duration(found['took_s'])}, round {number}: {said}"


def _speed(hosts: Mapping[str, Any]) -> str:
    for figure in ("speed of gpus", CPU_FIGURES[0]):
        last = {name: row["figures"][figure][-1] for name, row in hosts.items() if row["figures"][figure]}
        values = {name: float(value) for name, value in last.items() if value is not None}
        if values:
            slowest = min(values, key=lambda name: values[name])
            unit = "GFLOP/s of a thread" if FIELDS[figure] == "gflops_per_cpu" else "GFLOP/s"
            return f"{statistics.median(values.values()):,.1f} {unit}, slowest {slowest} {values[slowest]:,.1f}"
    return ""


def _group(document: Mapping[str, Any]) -> str:
    value = document["group"]["busbw"][-1] if document["group"]["busbw"] else None
    return "" if value is None else f"all_reduce {value:.3g} GB/s"


def _is_last(rows: list[list[Any]], number: int) -> bool:
    return bool(rows) and rows[-1][0] == number


@contextlib.contextmanager
def shown(directory: Path, say: Callable[[str], None] | None) -> Iterator[None]:
    """Say each round when it has ended; those that are not said yet at the end, then."""
    if say is None:
        yield
        return
    over = threading.Event()
    follower = threading.Thread(target=_follow, args=(directory / ROUNDS, say, over), name="rounds", daemon=True)
    follower.start()
    try:
        yield
    finally:
        over.set()
        follower.join(2 * POLL_S + 1.0)


def _follow(path: Path, say: Callable[[str], None], over: threading.Event) -> None:
    num_said, is_last = 0, False
    while not is_last:
        is_last = over.wait(POLL_S)  # look once more after the end
        with contextlib.suppress(OSError):
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]
            for text in lines[num_said:]:
                say(text)
            num_said = len(lines)
