"""Rounds of host pairs that are measured at the same time: pairs of a round share no host. Pure.

Up to MOST_FOR_ALL hosts every pair is measured once (circle method: n-1 rounds, n for an odd n); above, every host
meets three others.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ddp_play.checks.pair_samples import ordered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from ddp_play.checks.pair_samples import Pair

MOST_FOR_ALL = 16
SCREENING_ROUNDS = 3

Round = tuple["Pair", ...]


def first_rounds(hosts: Sequence[str], *, seed: int = 0) -> list[Round]:
    """The rounds of the first pass: all pairs, or a screening of larger fleets."""
    return all_pairs(hosts) if len(hosts) <= MOST_FOR_ALL else screening(hosts, seed=seed)


def all_pairs(hosts: Sequence[str]) -> list[Round]:
    """Every pair once, by the circle method: one place stays, the others move on by one in each round."""
    seats: list[str | None] = [*hosts] if len(hosts) % 2 == 0 else [*hosts, None]
    rounds = []
    for _ in range(len(seats) - 1 if len(hosts) > 1 else 0):
        couples = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        rounds.append(tuple(ordered(one, other) for one, other in couples if one is not None and other is not None))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return rounds


def screening(hosts: Sequence[str], *, seed: int = 0, num_rounds: int = SCREENING_ROUNDS) -> list[Round]:
    """Rounds in which each host meets another one each time: rounds of the circle method over a shuffled circle.

    The odd host that rests in a round is another one each time, so that each host has at least two partners.
    """
    shuffled = list(hosts)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret: the same seed gives the same rounds
    rounds = all_pairs(shuffled)
    step = max(1, len(rounds) // num_rounds)
    return [rounds[at * step] for at in range(min(num_rounds, len(rounds)))]


def disjoint_rounds(pairs: Iterable[Pair]) -> list[Round]:
    """These pairs in few rounds: each goes into the first one whose hosts are others."""
    rounds: list[list[Pair]] = []
    taken: list[set[str]] = []
    for pair in pairs:
        at = next((at for at, used in enumerate(taken) if used.isdisjoint(pair)), len(rounds))
        if at == len(rounds):
            rounds.append([])
            taken.append(set())
        rounds[at].append(pair)
        taken[at].update(pair)
    return [tuple(row) for row in rounds]


def buddy_pairs(
    suspects: Iterable[str], buddies: Sequence[str], *, num_buddies: int = 3, avoid: Collection[Pair] = ()
) -> list[Pair]:
    """Each suspect with some of the buddies, which are used in turn; those of `avoid` only if there are no others."""
    found: list[Pair] = []
    turn = 0
    for suspect in suspects:
        circle = [*buddies[turn % len(buddies) :], *buddies[: turn % len(buddies)]] if buddies else []
        fresh = [buddy for buddy in circle if ordered(suspect, buddy) not in avoid]
        known = [buddy for buddy in circle if ordered(suspect, buddy) in avoid]
        found += [ordered(suspect, buddy) for buddy in [*fresh, *known][:num_buddies]]
        turn += num_buddies
    return found
