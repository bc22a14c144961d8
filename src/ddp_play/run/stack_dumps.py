"""Stack dumps of hung ranks: parse them and summarise in one sentence where the ranks are. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# How faulthandler begins and what it prints, CPython 3.9 to 3.14: innermost frame first.
DUMP = "Fatal Python error: Aborted"
THREAD = re.compile(r"^(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$')
# Code of libraries: torch, the standard library, and other installed packages.
LIBRARY = re.compile(r"/(site|dist)-packages/|/torch/|/lib(64)?/python3|^<frozen ")
WRAPPERS = frozenset(
    {"wrapper", "inner", "_fn", "__call__", "_call_impl", "_wrapped_call_impl", "decorate_context", "wrapped"}
)
# Functions of torch in which a rank waits for its peers.
WAITS = re.compile(
    r"barrier|all_reduce|all_gather|all_to_all|reduce|broadcast|scatter|gather|\bsend|\brecv|\bwait|backward|"
    r"synchronize|init_process_group|rendezvous|new_group|\bget$"
)
STATES = {"T": "is stopped by a signal", "t": "is stopped by a debugger", "D": "waits for a disk or a network mount"}


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a stack."""

    file: str
    line: int
    name: str

    @property
    def is_library(self) -> bool:
        """Is it code that the user did not write?"""
        return bool(LIBRARY.search(self.file))


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What one rank is doing: `wait in all_reduce at train.py:88`."""

    does: str
    waits: bool  # for its peers


def cut_dump(log: str) -> str:
    """The stacks at the end of a rank's log; empty if it printed none."""
    at = log.rfind(DUMP)
    return log[at:] if at >= 0 else ""


def main_stack(dump: str) -> tuple[Frame, ...]:
    """Frames of the main thread (whose outermost frame is a module), innermost first."""
    threads: list[list[Frame]] = []
    for line in dump.splitlines():
        if THREAD.match(line):
            threads.append([])
        elif threads and (match := FRAME.match(line)):
            threads[-1].append(Frame(match["file"], int(match["line"]), match["name"]))
    found = next((frames for frames in threads if frames and frames[-1].name == "<module>"), None)
    return tuple(found or next((frames for frames in reversed(threads) if frames), []))


def whereabouts(dump: str, seen: Mapping[str, object]) -> Whereabouts:
    """What a rank is doing, from its stack and its state in /proc (`state`, `cpu`)."""
    state, stack = str(seen.get("state", "")), main_stack(dump)
    if state in STATES:
        at = _place(stack)
        return Whereabouts(STATES[state] + (f" {at}" if at else ""), waits=False)
    if not stack:
        return Whereabouts("gave no Python stack" + (f" (state {state})" if state else ""), waits=False)
    own = next((index for index, frame in enumerate(stack) if not frame.is_library), None)
    if own is None or own == 0:
        return Whereabouts(f"is in {stack[0].name} {_at(stack[0])}", waits=False)
    called = next((frame.name for frame in reversed(stack[:own]) if frame.name not in WRAPPERS), stack[0].name)
    in_torch = any("/torch/" in frame.file for frame in stack[:own])
    if in_torch and WAITS.search(called):
        return Whereabouts(f"waits in {called} {_at(stack[own])}", waits=True)
    return Whereabouts(f"is in {called}, called from {stack[own].name} {_at(stack[own])}", waits=False)


def _place(stack: Sequence[Frame]) -> str:
    own = next((frame for frame in stack if not frame.is_library), None)
    return f"in {own.name} {_at(own)}" if own else ""


def _at(frame: Frame) -> str:
    return f"at {frame.file.rpartition('/')[2]}:{frame.line}"


def summary(found: Mapping[int, Whereabouts]) -> str:
    """`ranks 0, 1, 2 wait in all_reduce at train.py:88; rank 3 is in load_batch at data.py:12`."""
    groups: dict[str, list[int]] = {}
    for rank in sorted(found):
        groups.setdefault(found[rank].does, []).append(rank)
    rows = sorted(groups.items(), key=lambda item: (-len(item[1]), item[1]))
    return "; ".join(f"{_ranks(ranks)} {_plural(does) if len(ranks) > 1 else does}" for does, ranks in rows)


def suspect(found: Mapping[int, Whereabouts]) -> int | None:
    """The only rank that does not wait, or the only one that waits at another place; None if there is no such rank."""
    idle = [rank for rank, where in found.items() if not where.waits]
    if len(found) < 2:
        return None
    if len(idle) == 1:
        return idle[0]
    if idle:
        return None
    groups: dict[str, list[int]] = {}
    for rank, where in found.items():
        groups.setdefault(where.does, []).append(rank)
    alone = [ranks[0] for ranks in groups.values() if len(ranks) == 1]
    return alone[0] if len(groups) == 2 and len(alone) == 1 else None


def _plural(does: str) -> str:
    verb, _, rest = does.partition(" ")
    return {"waits": "wait", "is": "are", "gave": "gave"}.get(verb, verb) + " " + rest


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 8:
        return "ranks " + ", ".join(str(rank) for rank in ranks)
    return f"{len(ranks)} ranks ({ranks[0]}, {ranks[1]}, ... {ranks[-1]})"
