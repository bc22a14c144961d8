"""`make mutants`: change the code that deletes, stops and decides, and see whether its tests notice.

Each mutant is one small change of one module. Its tests run against it; if all pass, the mutant survived, and nobody
would notice that mistake. CONTRIBUTING.md says when to run this.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.mutants import sandbox, trial
from tests.mutants.mutations import Mutant, mutants
from tests.mutants.targets import Target, targets

ROOT = Path(__file__).resolve().parents[2]
# A mutant may make the tests that much slower before it counts as one that hangs.
SLOWER, AT_LEAST_S = 2.0, 6.0


@dataclass
class Score:
    """Results of one module."""

    target: Target
    counts: Counter[trial.Result]
    survivors: list[Mutant]
    equivalent: int

    def row(self) -> str:
        """One line of the table."""
        total = sum(self.counts.values())
        caught = total - self.counts[trial.Result.SURVIVED]
        share = f"{100 * caught // total:3d} %" if total else "    -"
        cells = [self.counts[result] for result in (trial.Result.KILLED, trial.Result.TIMEOUT, trial.Result.SURVIVED)]
        return f"{self.target.path:52} {share} " + "".join(f"{cell:9d}" for cell in (*cells, total, self.equivalent))


def main() -> int:
    """Exit status 1 if the tests of a module fail without any change or kill too few of its mutants."""
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--sample", type=int, default=0, help="mutants of each module (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument(
        "--only", default="", help="modules whose path contains one of these words, separated by commas"
    )
    parser.add_argument("--at-least", type=int, default=90, help="per cent that must be killed in each module")
    given = parser.parse_args()
    if sandbox.INSIDE not in os.environ:
        return sandbox.enter(ROOT, sys.argv[1:])
    chosen = [row for row in targets() if any(word in row.path for word in given.only.split(","))]
    sandbox.close_behind(ROOT)
    trial.preload()
    scores = [_score(target, given.sample, given.seed) for target in chosen]
    return _report(scores, given.at_least)


def _score(target: Target, sample: int, seed: int) -> Score:
    path = ROOT / target.path
    source, tests = path.read_text(encoding="utf-8"), list(target.tests)
    began = time.monotonic()
    if trial.run_tests(tests, 600, "/tmp/unchanged") is not trial.Result.SURVIVED:
        sys.exit(f"mutants: the tests of {target.path} fail without a change:\n{Path('/tmp/unchanged').read_text()}")
    limit_s = SLOWER * (time.monotonic() - began) + AT_LEAST_S
    score = Score(target, Counter(), [], 0)
    for mutant in mutants(source, sample, seed):
        if target.is_equivalent(mutant):
            score.equivalent += 1
            continue
        path.write_text(mutant.source, encoding="utf-8")
        result = trial.run_tests(tests, limit_s)
        path.write_text(source, encoding="utf-8")
        score.counts[result] += 1
        if result is trial.Result.SURVIVED:
            score.survivors.append(mutant)
            _say(f"  survived  {target.path}:{mutant.line} {mutant.function}")
            _say(f"    - {mutant.before}\n    + {mutant.after}")
    _say(score.row())
    return score


def _report(scores: list[Score], at_least: int) -> int:
    _say(f"\n{'':58}{'killed':>9}{'timeout':>9}{'survived':>9}{'total':>9}{'equivalent':>12}")
    for score in scores:
        _say(score.row())
    below = [
        score.target.path
        for score in scores
        if score.counts[trial.Result.SURVIVED] * 100 > (100 - at_least) * sum(score.counts.values())
    ]
    if below:
        _say(f"\nfewer than {at_least} % killed: {', '.join(below)}")
    return 1 if below else 0


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a script that says what it does


if __name__ == "__main__":
    sys.exit(main())
