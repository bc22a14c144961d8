"""Search for who spoils a group, in simulated fleets: hosts, pairs of hosts, and what is seen of all together only."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from ddp_play.checks.group_search import Blamed, Culprit, Group, search


def fleet(number: int) -> tuple[str, ...]:
    return tuple(f"h{at}" for at in range(1, number + 1))


class Simulation:
    """Groups that are well unless `spoils` says otherwise. `rounds`: that may be run; more are not run."""

    def __init__(self, spoils: Callable[[Group], bool], rounds: int = 10_000) -> None:
        self.spoils, self.rounds, self.tested = spoils, rounds, 0

    def run(self, groups: Sequence[Group]) -> dict[Group, bool | None]:
        hosts = [host for group in groups for host in group]
        assert len(hosts) == len(set(hosts)), "groups of a round share a host"
        assert all(len(group) > 1 for group in groups)
        self.rounds -= 1
        self.tested += len(groups)
        return {group: None if self.rounds < 0 else not self.spoils(group) for group in groups}


def with_bad(*bad: str) -> Simulation:
    return Simulation(lambda group: bool(set(bad) & set(group)))


@pytest.mark.parametrize("number", range(2, 20))
def test_a_group_that_is_well_needs_one_run(number: int) -> None:
    assert search(fleet(number), with_bad().run) == Culprit(Blamed.NOBODY, (), 1)


@pytest.mark.parametrize("number", [*range(3, 18), 64])
def test_each_single_bad_host_is_named(number: int) -> None:
    for host in fleet(number):
        found = search(fleet(number), with_bad(host).run)
        assert (found.blamed, found.hosts) == (Blamed.HOSTS, (host,))


def test_a_bad_host_of_many_needs_few_runs() -> None:
    assert max(search(fleet(64), with_bad(host).run).num_groups for host in fleet(64)) <= 20


@pytest.mark.parametrize("number", [5, 6, 7, 8, 11])
def test_two_bad_hosts_are_named_and_nobody_else(number: int) -> None:
    for pair in itertools.combinations(fleet(number), 2):
        found = search(fleet(number), with_bad(*pair).run)
        assert found.blamed is Blamed.HOSTS
        assert set(found.hosts) == set(pair)


@pytest.mark.parametrize("number", [3, 4, 5, 8])
def test_a_bad_link_names_no_single_host(number: int) -> None:
    for pair in itertools.combinations(fleet(number), 2):
        found = search(fleet(number), Simulation(lambda group, pair=pair: set(pair) <= set(group)).run)  # type: ignore[misc]
        assert found.blamed in (Blamed.UNCLEAR, Blamed.TOGETHER), found


@pytest.mark.parametrize("number", [3, 4, 8, 16])
def test_what_only_all_of_them_show_blames_nobody(number: int) -> None:
    found = search(fleet(number), Simulation(lambda group: len(group) == number).run)
    assert (found.blamed, found.hosts) == (Blamed.TOGETHER, fleet(number))


@pytest.mark.parametrize("number", [3, 4, 8, 20])
def test_when_nothing_is_well_the_test_is_broken(number: int) -> None:
    assert search(fleet(number), Simulation(lambda group: True).run).blamed is Blamed.ALL


def test_most_of_the_hosts_are_never_named() -> None:
    assert search(fleet(5), with_bad("h1", "h2", "h3").run).blamed is Blamed.ALL


def test_of_two_hosts_none_is_named() -> None:
    assert search(fleet(2), with_bad("h1").run) == Culprit(Blamed.UNCLEAR, ("h1", "h2"), 1)


@pytest.mark.parametrize("rounds", range(6))
def test_a_search_without_time_names_nobody_who_is_well(rounds: int) -> None:
    simulation = with_bad("h3")
    simulation.rounds = rounds
    found = search(fleet(8), simulation.run)
    assert found.blamed is (Blamed.NOT_RUN if rounds == 0 else found.blamed)
    assert found.blamed is not Blamed.NOBODY
    assert found.blamed is not Blamed.HOSTS or found.hosts == ("h3",)
