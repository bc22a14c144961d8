"""Figures of one host in each round of a burn-in, and what was odd in them. Pure."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.metric_series import is_number
from ddp_play.checks.fleet import NOT_OURS, ODD
from ddp_play.checks.torch_load import FIELDS, best

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_ODD, MOST_PROBLEMS = 32, 20
LOAD = ("multiply", "repeat")  # parts without which a round has failed
COUNTERS = ("times_held_back", "times_too_hot", "stolen_s")


@dataclass
class HostRows:
    """A row has a value for each round; None where the host gave none."""

    figures: dict[str, list[float | None]] = field(default_factory=lambda: {name: [] for name in FIELDS})
    counted: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COUNTERS})
    failed: int = 0  # rounds with a problem, also where its text is not kept any more
    gpus: list[int | None] = field(default_factory=list)  # that a round without a problem has used
    problems: list[list[Any]] = field(default_factory=list)  # round, text
    wrong: list[list[Any]] = field(default_factory=list)  # round, device, text
    digests: dict[str, dict[str, int]] = field(default_factory=dict)  # of repeats, by kind of device
    repeats: int = 0
    cpus: int = 0  # most on which a round has repeated
    next: int = 0

    def add(self, number: int, answer: Mapping[str, Any]) -> None:
        """Take what the host's program printed in a round. What has another form is a problem of this round."""
        texts = [str(answer["problem"])] if answer.get("problem") else []
        figures: dict[str, float | None] = {}
        rises: dict[str, float] = {}
        with _odd_is_told(texts):
            figures = {name: best([answer], name) for name in self.figures}
        with _odd_is_told(texts):
            before, after = answer.get("before") or {}, answer.get("after") or {}
            rises = {name: float(after.get(name, 0.0)) - float(before.get(name, 0.0)) for name in self.counted}
        for name, values in self.figures.items():
            value = figures.get(name)
            values.append(None if value is None else round(value, 4))
        for name, counted in self.counted.items():
            counted.append(round(rises.get(name, 0.0), 3))
        for part in answer["parts"]:
            with _odd_is_told(texts):
                self._add_part(number, part, texts)
        self.gpus.append(None if texts else len(_devices(answer["parts"]) - {"cpu"}))
        self._add_problems(number, texts)

    def _add_problems(self, number: int, texts: Sequence[str]) -> None:
        self.failed += bool(texts)
        kept = texts[: MOST_PROBLEMS - len(self.problems)]
        self.problems += [[number + 1, text[:300]] for text in kept]

    def _add_part(self, number: int, part: Mapping[str, Any], texts: list[str]) -> None:
        kind = part.get("part")
        if "problem" in part:
            texts += [f"{kind}: {part['problem']}"] if kind in LOAD else []
        elif kind == "multiply" and part.get("right") is False:
            self._add_wrong(number, part, "a product of constant matrices is wrong")
        elif kind == "repeat":
            self._add_repeat(number, part)

    def _add_repeat(self, number: int, part: Mapping[str, Any]) -> None:
        if not all(is_number(part.get(name)) for name in ("calls", "wrong", "next")):
            return
        calls, wrong = int(part["calls"]), int(part["wrong"])
        self.repeats += calls
        self.next = int(part["next"])
        self.cpus = max(self.cpus, int(part.get("cpus", 0)))
        counts = self.digests.setdefault(str(part.get("kind"))[:200], {})
        digest = str(part.get("digest"))[:16]
        if counts and digest not in counts:
            self._add_wrong(number, part, "other bits than this host had before")
        if digest in counts or len(counts) < MOST_ODD:
            counts[digest] = counts.get(digest, 0) + calls - wrong
        if wrong:
            odd = [str(cpu)[:8] for cpu in part.get("odd") or ()][:MOST_ODD]
            where = f" on CPU {', '.join(odd)}" if odd else ""
            self._add_wrong(number, part, f"{wrong} of {calls} repeats have other bits{where}")

    def _add_wrong(self, number: int, part: Mapping[str, Any], text: str) -> None:
        if len(self.wrong) < MOST_ODD:
            self.wrong.append([number + 1, str(part.get("device"))[:40], text])

    def to_json(self) -> dict[str, Any]:
        """The rows."""
        return {
            "figures": self.figures, "counted": self.counted, "failed": self.failed, "gpus": self.gpus,
            "problems": self.problems, "wrong": self.wrong, "digests": self.digests, "repeats": self.repeats,
            "cpus": self.cpus,
        }  # fmt: skip


@contextlib.contextmanager
def _odd_is_told(texts: list[str]) -> Iterator[None]:
    """One odd answer must not end a check of hours."""
    try:
        yield
    except (*ODD, OverflowError) as error:
        texts.append(f"{NOT_OURS} ({type(error).__name__}: {error})")


def _devices(parts: Sequence[Mapping[str, Any]]) -> set[str]:
    """Devices that have both multiplied and repeated."""
    used = [{str(part.get("device")) for part in parts if part.get("part") == name} for name in LOAD]
    return used[0] & used[1]
