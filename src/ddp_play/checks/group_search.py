"""Search for the host that spoils a group: all hosts, then halves, and at last each suspect with healthy hosts. Pure.

A host is named if it spoils the group of each of two other healthy hosts that it was tested with alone. If more than
half of the hosts are, the test or the network is at fault, and nobody is named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ddp_play.checks.pair_rounds import all_pairs

Group = tuple[str, ...]
# Groups without a common host, at the same time: by group whether it is well, None if that could not be found out.
RunGroups = Callable[[Sequence[Group]], dict[Group, bool | None]]
PARTNERS = 2  # healthy hosts that a suspect is tested with before it is named
MOST_PAIRED = 8  # hosts of which all pairs are tested where no group is well


class Blamed(StrEnum):
    """What spoils the group."""

    NOBODY = "nobody"
    HOSTS = "hosts"
    TOGETHER = "only together"  # each part is well, all of it is not
    UNCLEAR = "cannot tell"
    ALL = "the test or the network"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The result. `hosts`: that are named, or of which it cannot be told."""

    blamed: Blamed
    hosts: Group = ()
    num_groups: int = 0  # that were tested


@dataclass
class _Search:
    run: RunGroups
    num_groups: int = 0
    was_cut_short: bool = False
    healthy: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)
    between: list[Group] = field(default_factory=list)  # whose halves are well
    pairs: dict[frozenset[str], bool | None] = field(default_factory=dict)  # that were tested

    def test(self, groups: Sequence[Group]) -> dict[Group, bool | None]:
        """Test groups, and remember the hosts of those that are well."""
        found = self.run(groups) if groups else {}
        self.num_groups += len(groups)
        self.pairs |= {frozenset(group): is_well for group, is_well in found.items() if len(group) == 2}
        self.was_cut_short |= any(is_well is None for is_well in found.values())
        self.healthy += [
            host for group, is_well in found.items() if is_well for host in group if host not in self.healthy
        ]
        return found

    def halve(self, group: Group) -> None:
        """Halve the group and each half that is not well, down to single hosts: these are suspects."""
        failing = [group]
        while failing and not self.was_cut_short:
            failing = self._one_round(failing)

    def _one_round(self, failing: Sequence[Group]) -> list[Group]:
        partners, tested = iter(tuple(self.healthy)), {}
        for group in failing:
            for half in (group[: len(group) // 2], group[len(group) // 2 :]):
                partner = next(partners, None) if len(half) == 1 else None
                tested[half] = (*half, partner) if partner else half
        found = self.test([group for group in tested.values() if len(group) > 1])
        bad = [half for half, group in tested.items() if not (len(group) > 1 and found[group])]
        for group in failing:
            if not any(half in bad for half in (group[: len(group) // 2], group[len(group) // 2 :])):
                self.between.append(group)
        self.suspects += [half[0] for half in bad if len(half) == 1]
        return [half for half in bad if len(half) > 1]

    def pair_all(self, hosts: Group) -> None:
        """All pairs of a few hosts, where no group was well: hosts of pairs that are well are no suspects."""
        for pairs in all_pairs(hosts):
            if not self.was_cut_short:
                self.test(pairs)
        self.suspects = [host for host in hosts if host not in self.healthy]

    def confirmed(self) -> tuple[list[str], list[str]]:
        """Suspects that spoil each of two healthy partners, and those of which it cannot be told."""
        named, unclear = [], []
        for suspect in dict.fromkeys(self.suspects):
            partners = [host for host in self.healthy if host != suspect][:PARTNERS]
            answers = [self._pair(suspect, partner) for partner in partners]
            if len(answers) == PARTNERS and all(is_well is False for is_well in answers):
                named.append(suspect)
            elif not all(answers) or len(answers) < PARTNERS:
                unclear.append(suspect)
        return named, unclear

    def _pair(self, suspect: str, partner: str) -> bool | None:
        """Whether these two are well together; tested once."""
        known = self.pairs.get(frozenset((suspect, partner)))
        return self.test([(suspect, partner)])[(suspect, partner)] if known is None else known


def search(hosts: Sequence[str], run: RunGroups, *, whole: bool | None = None) -> Culprit:
    """Find who spoils the group of these hosts. `run` is called once for each round; `whole`: what is known of all."""
    group, found = tuple(hosts), _Search(run)
    is_well = found.test([group])[group] if whole is None else whole
    if is_well is None:
        return Culprit(Blamed.NOT_RUN, group, found.num_groups)
    if is_well:
        return Culprit(Blamed.NOBODY, (), found.num_groups)
    if len(group) == 2:
        return Culprit(Blamed.UNCLEAR, group, found.num_groups)
    found.halve(group)
    if not found.healthy and not found.was_cut_short and len(group) <= MOST_PAIRED:
        found.pair_all(group)
    return _judged(group, found)


def _judged(group: Group, found: _Search) -> Culprit:
    if not found.healthy and not found.was_cut_short:
        return Culprit(Blamed.ALL, group, found.num_groups)
    named, unclear = found.confirmed()
    if 2 * len(named) > len(group):
        return Culprit(Blamed.ALL, group, found.num_groups)
    if found.was_cut_short and not named:
        return Culprit(Blamed.UNCLEAR, tuple(unclear) or group, found.num_groups)
    if named:
        return Culprit(Blamed.HOSTS, tuple(named), found.num_groups)
    if unclear:
        return Culprit(Blamed.UNCLEAR, tuple(unclear), found.num_groups)
    return Culprit(Blamed.TOGETHER, found.between[0] if found.between else group, found.num_groups)
