"""What a sample of a host costs the training step during which it is taken.

Turns with and without samples differ by ten times what is looked for, because a machine drifts. A sample is taken
each two seconds, at a time that the bundle has, and works for a millisecond. So the steps around each sample are
compared with those halfway to the next one, a second later.
"""

from __future__ import annotations

import bisect
import itertools
import time
from typing import TYPE_CHECKING

from exchange_turns import NAME, our_training, step_times

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.samples import read_samples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exchange_ways import BenchLab

# Seconds of training that count for a sample, from before its time stamp to after it: the rest of its effects, too.
BEFORE_S, AFTER_S = 0.05, 0.25
# Seconds between samples of a host; longer ones are thinned or late, and leave nothing to compare with.
INTERVAL_S, MOST_S = 2.0, 3.0


def sample_ratios(lab: BenchLab, batch_size: int, seconds: float) -> list[float]:
    """Seconds of a step in a training with samples to those without, one ratio for each sample of rank 0's host.

    RuntimeError if a training does not start, or if no sample was taken during it.
    """
    with our_training(lab, batch_size) as (ours, _):
        time.sleep(seconds)
        steps = step_times(ours.metrics())
        bundle = RunPaths(lab.home / "runs" / NAME)
        rows = read_samples(bundle.samples(lab.hosts[0].name)).rows
    found = ratios(steps, [row["t"] for row in rows])
    if not found:
        raise RuntimeError(f"no step of the training lies between two of the {len(rows)} samples")
    return found


def ratios(steps: Sequence[float], samples: Sequence[float]) -> list[float]:
    """One ratio for each two neighbouring samples that have enough steps, as a share of the whole interval."""
    found = []
    for at, after in itertools.pairwise(samples):
        near, far = (_step_s(steps, one) for one in (at, (at + after) / 2))
        if near and far and after - at <= MOST_S:
            found.append(1 + (near / far - 1) * (BEFORE_S + AFTER_S) / INTERVAL_S)
    return found


def _step_s(steps: Sequence[float], at: float) -> float | None:
    """Mean seconds of the steps around this time; None if fewer than two are complete."""
    first = bisect.bisect_left(steps, at - BEFORE_S)
    last = bisect.bisect_right(steps, at + AFTER_S) - 1
    return (steps[last] - steps[first]) / (last - first) if last - first >= 2 else None
