"""Hosts and pairs that were not met in a pair matrix: a pair blames both its hosts until each has met another. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.checks.pair_samples import Pair, Sample


def unreached(
    hosts: Sequence[str], samples: Sequence[Sample]
) -> tuple[dict[str, tuple[str, int]], dict[Pair, str], str]:
    """Hosts that met nobody, with the reason and the number of tries; other pairs with the reason; why nobody met."""
    failed = {sample.pair: sample.problem for sample in samples if sample.unmet}
    met = {host for sample in samples if sample.mbps is not None for host in sample.pair}
    if failed and not met:
        return {}, {}, next(iter(failed.values()))
    tries = Counter(host for pair in failed for host in pair)
    alone = {host for host in hosts if host not in met and _is_blamed(host, failed, met)}
    reasons = {host: next(why for pair, why in failed.items() if host in pair) for host in sorted(alone)}
    return (
        {host: (why, tries[host]) for host, why in reasons.items()},
        {pair: why for pair, why in failed.items() if not set(pair) & alone},
        "",
    )


def _is_blamed(host: str, failed: dict[Pair, str], met: set[str]) -> bool:
    """Two partners that met others at least: with one, it may be the way between them."""
    partners = {other for pair in failed if host in pair for other in pair if other != host}
    return len(partners & met) >= 2
