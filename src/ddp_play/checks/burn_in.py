"""Burn-in of hosts: the load of the full level, round after round until the time is up, and the same bits each time.

A round is one program on each host: it multiplies, repeats one calculation, and reduces with the others. What each
round has found is kept as rows of figures; a host that ends or fails in a round is asked again in the next one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks.burn_in_rows import HostRows
from ddp_play.checks.torch_load import LEAST_S, MULTIPLY

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ddp_play.checks.torch_load import TorchLoad

DEFAULT_WITHIN = "10m"  # of the whole check
# Seconds of a round's load: at least and at most; of what is left, so that a short burn-in has several rounds.
LEAST_LOAD_S, MOST_LOAD_S, LOAD_SHARE = 2.0, 20.0, 0.08
MULTIPLY_SHARE = 0.6  # of these seconds; the rest repeats
MOST_PROBLEMS = 20

Round = dict[str, Any]


@dataclass
class BurnIn:
    """Rounds of a load that has been measured once. `clock`: seconds, for tests."""

    load: TorchLoad
    on_round: Callable[[dict[str, Any], Round], None]
    clock: Callable[[], float] = time.monotonic
    rows: dict[str, HostRows] = field(default_factory=dict)
    busbw: list[float | None] = field(default_factory=list)
    problems: list[list[Any]] = field(default_factory=list)
    began: list[float] = field(default_factory=list)  # seconds after the start, of each round

    def run(self) -> dict[str, Any]:
        """Rounds while there is time for one as long as the longest so far."""
        start, longest_s = self.clock(), 0.0
        self.rows = {host: HostRows() for host in self.load.pythons}
        while self._has_time(longest_s):
            round_start = self.clock()
            found = self._round(round_start - start)
            longest_s = max(longest_s, self.clock() - round_start)
            self.on_round(self.document(), {**found, "took_s": self.clock() - start})
            if not any(host not in self.load.talk.lost for host in self.load.pythons):
                break
        return self.document()

    def _has_time(self, longest_s: float) -> bool:
        least_s = max(longest_s * 1.2, LEAST_LOAD_S) if self.began else LEAST_S
        return self.load.talk.cap_s(2 * least_s) >= least_s

    def _round(self, at_s: float) -> Round:
        number, load_s = len(self.began), self._load_s()
        self.began.append(round(at_s, 1))
        one = replace(self.load, answers={}, groups=[], num_asked=number)
        multiply, repeat_s = {**MULTIPLY, "seconds": MULTIPLY_SHARE * load_s}, (1 - MULTIPLY_SHARE) * load_s
        work = {
            host: {"multiply": multiply, "repeat": {"seconds": repeat_s, "first": rows.next}}
            for host, rows in self.rows.items()
        }
        group = one.once(work, load_s)
        for host, rows in self.rows.items():
            rows.add(number, one.answers.get(host, [{"parts": [], "problem": "it was not asked"}])[-1])
        self._add_group(number, group)
        return {"round": number + 1, "group": group}

    def _load_s(self) -> float:
        left_s = self.load.talk.cap_s(MOST_LOAD_S / LOAD_SHARE)
        return min(MOST_LOAD_S, max(LEAST_LOAD_S, LOAD_SHARE * left_s))

    def _add_group(self, number: int, group: Mapping[str, Any] | None) -> None:
        sizes = (group or {}).get("sizes") or []
        self.busbw.append(round(float(sizes[-1]["busbw_gb_s"]), 4) if sizes else None)
        if group and group["problem"] and len(self.problems) < MOST_PROBLEMS:
            self.problems.append([number + 1, str(group["problem"])[:300]])

    def document(self) -> dict[str, Any]:
        """All rounds so far."""
        return {
            "rounds": len(self.began),
            "began_s": self.began,
            "hosts": {host: rows.to_json() for host, rows in self.rows.items()},
            "group": {"busbw": self.busbw, "problems": self.problems},
            "ended": "",
        }
