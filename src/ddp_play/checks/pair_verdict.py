"""Verdict on a pair matrix: host, link, direction, infrastructure or "cannot tell", each with its evidence. Pure."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING

from ddp_play.checks import pair_reach
from ddp_play.checks.pair_attribution import Blame, attribute, norm_of, parts_of, quarter
from ddp_play.checks.pair_outcome import BOTH, Evidence, Kind, Verdict, merged
from ddp_play.checks.pair_samples import ordered
from ddp_play.checks.pair_yardsticks import DIRECTION_SHARE, NO_NORM, is_starved, yardsticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ddp_play.checks.pair_samples import Pair, PairEnd, Sample
    from ddp_play.checks.pair_yardsticks import Yardstick

# Segments after a lost one are out of order until it comes, and the rate falls with everything.
FOLLOWS = ("out of order", "rate")
# Of the directions between hosts that are faster with each other; some may be disturbed.
MOST_OF = 0.8
# So many slow directions that no host explains are no single links.
LEAST_SCATTERED, SCATTERED = 5, 0.1


def judge(
    ends: Mapping[str, PairEnd],
    samples: Sequence[Sample],
    records: Mapping[Pair, float] | None = None,
    *,
    stays: Callable[[Verdict], bool] = lambda _: True,
) -> tuple[Verdict, ...]:
    """All verdicts on one pass. `records`: Mb/s by (source, target) of an earlier time.

    `stays`: whether a cause stays, so that what follows from it (FOLLOWS) is no defect of its own.
    """
    found = [*_reach(ends, samples)]
    causes: list[Verdict] = []
    for yardstick in yardsticks(ends, records or {}, starved=is_starved(samples)):
        judged = samples
        if yardstick.metric in FOLLOWS:  # from each of the others, which are judged before
            judged = [row for row in samples if not any(cause.is_about(row) for cause in causes)]
        verdicts = _by(yardstick, ends, judged)
        causes += [row for row in verdicts if row.blames and yardstick.metric != "rate" and stays(row)]
        found += verdicts
    return _breaker(merged(found), len(ends))


def _by(yardstick: Yardstick, ends: Mapping[str, PairEnd], samples: Sequence[Sample]) -> list[Verdict]:
    cells = _cells(yardstick, samples)
    if len(ends) == 2:
        return _two_hosts(yardstick, cells)
    if not cells or (yardstick.relative and len(cells) < 3):
        return []
    parts = parts_of(cells, directed=yardstick.directed)
    norm = norm_of(cells, parts) if yardstick.relative else NO_NORM
    if not yardstick.relative and (many := _most_beyond(yardstick, cells, parts, len(ends))):
        return [many]
    blame = attribute(cells, parts, norm, part_limit=yardstick.part_limit, cell_limit=yardstick.cell_limit)
    verdicts = [*_hosts(yardstick, cells, parts, blame), *_links(yardstick, cells, blame)]
    if yardstick.relative and yardstick.metric == "rate" and (unclear := _unclear(yardstick, cells, blame, len(ends))):
        return [unclear]
    return verdicts


def _unclear(yardstick: Yardstick, cells: Mapping[Pair, float], blame: Blame, num_hosts: int) -> Verdict | None:
    """Verdict where a comparison alone would blame too many, or the wrong ones; None where it can tell."""
    blamed = {host for _, host in blame.parts}
    if 2 * len(blamed) >= num_hosts:
        return _undecided(yardstick, cells, tuple(sorted(blamed)), "half of the hosts or more differ")
    if len(blame.cells) >= max(LEAST_SCATTERED, SCATTERED * len(cells)):
        hosts = tuple(sorted({host for cell in blame.cells for host in cell}))
        return _undecided(yardstick, cells, hosts, "many pairs are slow and no host explains them")
    faster = () if blamed else _faster(yardstick, cells, blame)
    return _undecided(yardstick, cells, faster, "these are faster together than the others") if faster else None


def _most_beyond(
    yardstick: Yardstick, cells: Mapping[Pair, float], parts: Mapping[tuple[str, str], Sequence[Pair]], num_hosts: int
) -> Verdict | None:
    """Most hosts are beyond a limit that was known before: the test or the network is broken, or the limit is wrong."""
    levels = {part: quarter([cells[cell] for cell in own]) for part, own in parts.items()}
    limit = yardstick.part_limit(NO_NORM, 1)
    hosts = tuple(sorted({host for (_, host), level in levels.items() if level > limit}))
    if 2 * len(hosts) <= num_hosts:
        return None
    evidence = _evidence(yardstick, statistics.median(cells.values()), limit, (len(cells), []))
    others = f"{len(hosts)} of {num_hosts} hosts are beyond this limit"
    return Verdict(Kind.INFRASTRUCTURE, hosts, (replace(evidence, others=others),))


def _cells(yardstick: Yardstick, samples: Sequence[Sample]) -> dict[Pair, float]:
    """Badness by (source, target), or by pair. What a CPU limited is no evidence against the network."""
    found: dict[Pair, float] = {}
    for sample in samples:
        value = yardstick.badness(sample)
        if value is not None and not (sample.cpu_limited and yardstick.metric == "rate" and not yardstick.relative):
            found[(sample.source, sample.target) if yardstick.directed else sample.pair] = value
    limited = {(row.source, row.target) for row in samples if row.cpu_limited}
    if yardstick.metric != "rate" or not limited & found.keys():
        return found
    usual = statistics.median(found.values())
    return {cell: value for cell, value in found.items() if cell not in limited or value <= usual}


def _hosts(
    yardstick: Yardstick, cells: Mapping[Pair, float], parts: Mapping[tuple[str, str], Sequence[Pair]], blame: Blame
) -> list[Verdict]:
    found = []
    for (role, host), level in blame.parts.items():
        own = parts[(role, host)]
        limit = blame.limits[(role, host)]
        rest = [value for cell, value in cells.items() if host not in cell]
        evidence = _evidence(yardstick, level, limit, (len(own), rest))
        found.append(Verdict(Kind.HOST, (host,), (evidence,), role if yardstick.directed else BOTH))
    return found


def _links(yardstick: Yardstick, cells: Mapping[Pair, float], blame: Blame) -> list[Verdict]:
    found = []
    rest = [value for cell, value in cells.items() if cell not in blame.cells]
    for (source, target), (value, limit) in blame.cells.items():
        back, _ = blame.cells.get((target, source), (None, 0.0))
        if back is not None and source > target:
            continue  # the other direction makes the verdict
        worst = max(value, back) if back is not None else value
        is_link = back is not None or not yardstick.directed
        evidence = _evidence(yardstick, worst, limit, (1 + (back is not None), rest))
        hosts = ordered(source, target) if is_link else (source, target)
        found.append(Verdict(Kind.LINK if is_link else Kind.DIRECTION, hosts, (evidence,)))
    return found


def _evidence(yardstick: Yardstick, value: float, limit: float, seen: tuple[int, Sequence[float]]) -> Evidence:
    num, rest = seen
    return Evidence(
        yardstick.metric, yardstick.shown(value), yardstick.shown(limit), num, yardstick.source,
        _others(yardstick, rest), limit, is_known=not yardstick.relative,
    )  # fmt: skip


def _others(yardstick: Yardstick, rest: Sequence[float]) -> str:
    return f"{yardstick.shown(statistics.median(rest))} (median of {len(rest)})" if rest else ""


def _two_hosts(yardstick: Yardstick, cells: Mapping[Pair, float]) -> list[Verdict]:
    """Two hosts have no outlier: only their two directions can be compared."""
    if not yardstick.relative and cells and max(cells.values()) > yardstick.cell_limit(NO_NORM):
        cell, value = max(cells.items(), key=lambda row: row[1])
        evidence = _evidence(yardstick, value, yardstick.cell_limit(NO_NORM), (1, []))
        return [Verdict(Kind.UNCLEAR, cell, (evidence,))]
    if not yardstick.relative or yardstick.metric != "rate" or len(cells) < 2:
        return []
    (slow, slow_x), (_, fast_x) = sorted(cells.items(), key=lambda row: -row[1])
    limit = yardstick.cell_limit(replace(NO_NORM, cell=fast_x))
    if slow_x <= limit:
        return []
    evidence = _evidence(yardstick, slow_x, limit, (1, [fast_x]))
    text = replace(evidence, source=f"the other direction less {100 - 100 * DIRECTION_SHARE:.0f} %")
    return [Verdict(Kind.UNCLEAR, slow, (text,), f"{slow[0]} sends or {slow[1]} receives slowly")]


def _faster(yardstick: Yardstick, cells: Mapping[Pair, float], blame: Blame) -> tuple[str, ...]:
    """Hosts that are faster with each other than most directions: then the majority may be the bad one."""
    # not by the spread, to which two groups add
    limit = 2 * blame.norm.cell - yardstick.cell_limit(replace(blame.norm, spread=0.0))
    fast = {cell for cell, value in cells.items() if value < limit}
    hosts = sorted({host for cell in fast for host in cell})
    among = {cell for cell in cells if set(cell) <= set(hosts)}
    num_hosts = len({host for cell in cells for host in cell})
    whole = len(fast) >= MOST_OF * len(among) and len(hosts) >= max(2, num_hosts / 4)
    return tuple(hosts) if whole else ()


def _undecided(yardstick: Yardstick, cells: Mapping[Pair, float], hosts: tuple[str, ...], why: str) -> Verdict:
    among = [value for cell, value in cells.items() if set(cell) & set(hosts)]
    rest = [value for cell, value in cells.items() if not set(cell) & set(hosts)]
    evidence = Evidence(
        yardstick.metric, yardstick.shown(statistics.median(among)), "none", len(among),
        f"{why}: a comparison cannot tell who is at fault; link speed or an own record can",
        _others(yardstick, rest),
    )  # fmt: skip
    return Verdict(Kind.UNCLEAR, hosts, (evidence,))


def judge_ends(ends: Mapping[str, PairEnd]) -> list[Verdict]:
    """Verdicts on what a host says of its own interface."""
    found = [
        Verdict(Kind.HOST, (end.host,), (Evidence(
            "carrier changes", f"{end.carrier_changes} during the test", "0", 1, "none is normal",
            f"{sum(not other.carrier_changes for other in ends.values())} hosts have none"),), BOTH)
        for end in ends.values() if end.carrier_changes
    ]  # fmt: skip
    sizes = [end.mtu for end in ends.values() if end.mtu]
    usual = statistics.mode(sizes) if sizes else 0
    odd = [end for end in ends.values() if end.mtu and end.mtu != usual]
    others = f"{sizes.count(usual)} hosts have {usual}"
    source = f"MTU of most hosts ({sizes.count(usual)} of {len(sizes)})"
    rows = [Evidence("mtu", str(end.mtu), str(usual), 1, source, others) for end in odd]
    if 2 * len(odd) >= len(sizes):
        return [*found, Verdict(Kind.UNCLEAR, tuple(ends), tuple(rows[:1]))] if odd else found
    return found + [Verdict(Kind.HOST, (end.host,), (row,), BOTH) for end, row in zip(odd, rows, strict=True)]


def _reach(ends: Mapping[str, PairEnd], samples: Sequence[Sample]) -> list[Verdict]:
    hosts, pairs, everybody = pair_reach.unreached(tuple(ends), samples)
    if everybody:
        evidence = Evidence("reach", everybody, "a connection", len(samples) // 2, "any pair", "no pair was met")
        return [Verdict(Kind.INFRASTRUCTURE if len(ends) > 2 else Kind.UNCLEAR, tuple(ends), (evidence,))]
    found = [
        Verdict(
            Kind.HOST, (host,), (Evidence("reach", why, "a connection", num, "any pair", "they meet others"),), BOTH
        )
        for host, (why, num) in hosts.items()
    ]
    return found + [
        Verdict(Kind.LINK, pair, (Evidence("reach", why, "a connection", 1, "any pair", "both meet others"),))
        for pair, why in pairs.items()
    ]


def _breaker(verdicts: tuple[Verdict, ...], num_hosts: int) -> tuple[Verdict, ...]:
    """Where more than half of the hosts are at fault, the test or the network is broken, and none of them is blamed.

    Of rates, a limit that was known before overrules the comparison.
    """
    fleet = tuple(row for row in verdicts if row.kind is Kind.INFRASTRUCTURE)
    if any(_is_known_rate(row) for row in fleet):
        return tuple(row for row in verdicts if row in fleet or {item.metric for item in row.evidence} != {"rate"})
    blamed = [row for row in verdicts if row.kind is Kind.HOST]
    if 2 * len(blamed) <= num_hosts:
        settled = any(_is_known_rate(row) for row in blamed)
        return tuple(row for row in verdicts if not (settled and row.kind is Kind.UNCLEAR))
    hosts = tuple(sorted(host for row in blamed for host in row.hosts))
    others = f"{len(hosts)} of {num_hosts} hosts are beyond this limit"
    return (Verdict(Kind.INFRASTRUCTURE, hosts, (replace(blamed[0].evidence[0], others=others),)), *fleet)


def _is_known_rate(verdict: Verdict) -> bool:
    return any(item.is_known and item.metric == "rate" for item in verdict.evidence)
