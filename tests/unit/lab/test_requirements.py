"""Memory, disk space and kernel limits that a lab needs."""

from __future__ import annotations

import pytest

from ddp_play.lab.requirements import MachineResources, RankImageNeeds, kernel_limits, resource_problems

ROOMY = MachineResources(memory_free_mib=16_000, disk_free_mib=50_000)


@pytest.mark.parametrize(
    "machine",
    [ROOMY, MachineResources(None, None), MachineResources(800, 3000)],
    ids=["plenty", "remote engine", "just enough"],
)
def test_sufficient_resources_pass(machine: MachineResources) -> None:
    assert resource_problems(machine, num_new_hosts=3, engine=True, image_cached=False) == []


def test_no_new_host_needs_nothing() -> None:
    assert resource_problems(MachineResources(0, 0), num_new_hosts=0, engine=True, image_cached=True) == []


def test_too_little_memory_names_what_fits() -> None:
    (problem,) = resource_problems(MachineResources(1000, 50_000), num_new_hosts=32, engine=True, image_cached=True)
    assert "32 new hosts need about 4416 MiB of memory, 1000 MiB are available" in problem.message
    assert problem.hint == "--hosts 5 would fit"


def test_too_little_disk_names_the_path() -> None:
    machine = MachineResources(9000, 900, "/data/docker")
    (problem,) = resource_problems(machine, num_new_hosts=2, engine=True, image_cached=False)
    assert "900 MiB are free in /data/docker" in problem.message


def test_the_image_of_the_ranks_takes_disk_here_and_on_each_host() -> None:
    machine = MachineResources(9000, 3000)
    assert resource_problems(machine, num_new_hosts=2, engine=True, image_cached=True) == []
    needs = RankImageNeeds(host_mib=1200, here_mib=1100)
    (problem,) = resource_problems(machine, num_new_hosts=2, engine=True, image_cached=True, rank_image=needs)
    assert "2 new hosts need about 4100 MiB of disk" in problem.message


def test_memory_and_disk_are_both_named() -> None:
    found = resource_problems(MachineResources(100, 100), num_new_hosts=1, engine=True, image_cached=True)
    assert ["memory" in row.message for row in found] == [True, False]
    assert ["disk" in row.message for row in found] == [False, True]


def test_a_cached_image_needs_no_disk() -> None:
    assert resource_problems(MachineResources(9000, 900), num_new_hosts=2, engine=True, image_cached=True) == []


USUAL = {"fs.inotify.max_user_instances": 128, "kernel.keys.maxkeys": 500, "kernel.keys.maxbytes": 20_000}


@pytest.mark.parametrize(("num_hosts", "too_small"), [(3, set()), (32, set(USUAL))])
def test_many_hosts_need_higher_limits(num_hosts: int, too_small: set[str]) -> None:
    least = {limit.name: limit.least for limit in kernel_limits(num_hosts)}
    assert set(least) == set(USUAL)
    assert {name for name, value in least.items() if value > USUAL[name]} == too_small
