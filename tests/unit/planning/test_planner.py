"""Making the plan: numbers of ranks, warnings, and jobs that are refused whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import HostNotReady, UsageError
from tests.unit.build import engine, env, gpus, host, hosts, plan, shared, slots

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan


def layout(made: Plan) -> list[tuple[str, list[int], list[int]]]:
    """(host, ranks, local ranks) of every host."""
    return [
        (item.name, list(item.ranks), [int(env(made, rank)["LOCAL_RANK"]) for rank in item.ranks])
        for item in made.hosts
    ]


def test_uneven_slots_number_ranks_host_by_host() -> None:
    made = plan(*slots(2, 1, 1))
    assert layout(made) == [("h1", [0, 1], [0, 1]), ("h2", [2], [0]), ("h3", [3], [0])]
    assert made.world_size == 4
    assert [env(made, rank)["LOCAL_WORLD_SIZE"] for rank in range(4)] == ["2", "2", "1", "1"]
    assert [env(made, rank)["GROUP_RANK"] for rank in range(4)] == ["0", "0", "1", "2"]
    assert {made.host_of(rank).name for rank in (0, 1)} == {"h1"}


@pytest.mark.parametrize(
    ("fields", "values", "count"),
    [
        ({}, {}, 1),
        ({"slots": 3}, {}, 3),
        ({"gpus": gpus(4)}, {}, 4),
        ({"gpus": gpus(4), "slots": 2}, {}, 4),
        ({"gpus": gpus(4), "slots": 2}, {"gpus": "none"}, 2),
        ({"gpus": gpus(4)}, {"ranks_per_host": 2}, 2),
        ({"gpus": gpus(2)}, {"ranks_per_host": 4, "backend": "gloo"}, 4),
        ({"slots": 3}, {"ranks_per_host": 5}, 5),
    ],
)
def test_ranks_per_host(fields: dict[str, Any], values: dict[str, Any], count: int) -> None:
    assert plan(host(**fields), **values).world_size == count


@pytest.mark.parametrize(
    ("fields", "values", "words"),
    [
        ({"slots": 0}, {}, "h1: ddp_slots is 0; it must be at least 1"),
        ({"slots": -2}, {}, "h1: ddp_slots is -2"),
        ({"gpus": gpus(2)}, {"ranks_per_host": 4}, r"h1: 4 ranks on 2 GPU\(s\): nccl allows one rank per GPU"),
    ],
)
def test_impossible_numbers_of_ranks(fields: dict[str, Any], values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(host(**fields), **values)


def test_broken_gpus_are_no_reason_to_train_on_cpus_unasked() -> None:
    broken = host(gpu_problem="2 NVIDIA GPU(s) but no nvidia-smi: is the driver installed?")
    with pytest.raises(HostNotReady, match=r"h1: 2 NVIDIA GPU.*no nvidia-smi") as caught:
        plan(broken)
    assert "ddp_job_gpus" in caught.value.hint
    assert plan(broken, gpus="none").backend == "gloo"


@pytest.mark.parametrize(
    ("fields", "values", "words"),
    [
        ({"clock_offset_s": -7.25}, {}, ["h1: its clock is -7.2 s off the controller's"]),
        ({"gpus": gpus(1, users=("123 python",))}, {}, ["h1: GPU 0 is in use by 123 python"]),
        ({"gpus": gpus(1, users=("123 python",))}, {"gpus": "none"}, []),
        ({"ephemeral_ports": (20000, 60999)}, {}, ["ddp_job_port_range 29500-29999 overlaps h1's ephemeral ports"]),
        ({"gpus": gpus(1), "gpu_problem": "2 in sysfs, 1 shown"}, {}, ["h1: 2 in sysfs, 1 shown"]),
        ({"clock_offset_s": 1.0}, {}, []),
    ],
)
def test_warnings(fields: dict[str, Any], values: dict[str, Any], words: list[str]) -> None:
    found = plan(host(**fields), **values).warnings
    assert len(found) == len(words)
    assert all(text.startswith(word) for text, word in zip(found, words, strict=True))


def test_a_job_that_restarts_has_a_lease_and_is_warned_of_a_lost_working_directory() -> None:
    assert plan(*hosts(2), restarts=1).timeouts["lease"] == 60.0
    assert plan(*hosts(2), restarts=1, lease="5m").timeouts["lease"] == 300.0
    assert plan(*hosts(2)).timeouts["lease"] == 0.0
    assert any("from scratch" in text for text in plan(*hosts(2), restarts=1).warnings)
    assert plan(*hosts(2, shared=shared()), restarts=1).warnings == ()


def test_groups_of_containers_are_refused_for_processes() -> None:
    """They were ignored, and ranks failed later with EACCES."""
    with pytest.raises(
        UsageError, match=r"ddp_job_groups \(video\) is for containers, and the ranks are processes"
    ) as no:
        plan(groups=["video"])
    assert "add the user to these groups" in no.value.hint
    assert plan(host(engine=engine()), groups=["video"], image="i:1").hosts
