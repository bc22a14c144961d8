"""Making the plan: numbers of ranks, refusals, warnings, and three whole plans against golden files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.errors import DdpPlayError, HostNotReady, UsageError
from ddp_play.planning.host_facts import HostFacts, Problem
from ddp_play.planning.plan_document import Plan, plan_from_json
from tests.unit.build import engine, env, gpus, host, hosts, ib_host, plan, shared, user

GOLDEN = Path(__file__).parents[1] / "golden"
SECOND = Problem("h9", "unreachable", "no route to host", "is it up? ssh h9")


def slots(*counts: int | None, **fields: Any) -> tuple[HostFacts, ...]:
    """Hosts with so many slots."""
    return tuple(
        dataclasses.replace(item, slots=count) for item, count in zip(hosts(len(counts), **fields), counts, strict=True)
    )


def layout(made: Plan) -> list[tuple[str, list[int], list[int]]]:
    """(host, ranks, local ranks) of every host."""
    return [
        (item.name, list(item.ranks), [int(env(made, rank)["LOCAL_RANK"]) for rank in item.ranks])
        for item in made.hosts
    ]


# -- how many ranks where ------------------------------------------------------------------------------


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


# -- shared directory ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "values", "error", "words"),
    [
        (hosts(2, shared=shared(problem="does not exist")), {}, HostNotReady, "h1: shared directory /shared: does not"),
        (
            (host(shared=shared()), host("h2", "10.0.0.2/24", shared=shared(problem="Read-only file system"))),
            {},
            HostNotReady,
            "h2: shared directory /shared: Read-only file system",
        ),
        ((host(shared=shared()), host("h2", "10.0.0.2/24")), {}, UsageError, "set for some hosts and not for h2"),
        (hosts(2), {"init_method": "file"}, UsageError, "init_method is file and no shared directory is known"),
    ],
)
def test_shared_directory_refusals(
    facts: tuple[HostFacts, ...], values: dict[str, Any], error: type[DdpPlayError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        plan(*facts, **values)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "uid", "problem", "words"),
    [
        (
            "root",
            0,
            "Permission denied",
            "root_squash maps root to nobody: run as the directory's owner, without become",
        ),
        ("root", 0, "Read-only file system", "mount it there"),
        ("ops", 1000, "Permission denied", "let ops (uid 1000) create files there"),
        ("ops", 1000, "does not exist", "mount it there"),
    ],
)
def test_the_hint_is_about_the_reason_why_a_shared_directory_cannot_be_used(
    name: str, uid: int, problem: str, words: str
) -> None:
    with pytest.raises(HostNotReady) as caught:
        plan(host(user=user(name, uid), shared=shared(problem=problem)))
    assert words in caught.value.hint
    assert "unset ddp_shared_dir" in caught.value.hint


@pytest.mark.parametrize(
    ("facts", "method", "url"),
    [
        (hosts(2), "env", "env://"),
        (hosts(2), "tcp", "tcp://10.0.0.2:<head_port>"),
        ((host(machine="m"), host("b", machine="m")), "tcp", "tcp://127.0.0.1:<head_port>"),
        (hosts(2, shared=shared()), "file", "file:///shared/.ddp-play/<run_key>/rendezvous-<attempt>"),
        ((host(machine="m"), host("b", machine="m")), "file", "file:///tmp/ddp-play-rendezvous-<run_key>-<attempt>"),
    ],
)
def test_init_methods(facts: tuple[HostFacts, ...], method: str, url: str) -> None:
    made = plan(*facts, init_method=method, command=["t", "--init-method", "{init_method}"])
    assert made.init_url == url
    assert made.hosts[0].rank(0).argv == ("t", "--init-method", url)
    assert env(made)["DDP_PLAY_INIT_METHOD"] == url


# -- engine and image ----------------------------------------------------------------------------------

IMAGE: dict[str, Any] = {"image": "team/train:2"}


@pytest.mark.parametrize(
    ("fields", "values", "words", "hint"),
    [
        ({}, {}, "h1: the container engine was not queried", "ddp_job_runtime to process"),
        (
            {"engine": engine(problem="no Docker engine answers")},
            {},
            "h1: no Docker engine answers",
            "ddp-play provision",
        ),
        (
            {"engine": engine(problem="no permission on /var/run/docker.sock", permission=True)},
            {},
            "h1: no permission on /var/run/docker.sock",
            "add ops to the docker group on h1",
        ),
        ({"engine": engine(cli=False)}, {}, "h1: the engine responds, but the docker command is missing", "docker-cli"),
        (
            {"engine": engine(image=None)},
            {"image_pull": "never"},
            "h1: image team/train:2 is missing and ddp_job_image_pull is never",
            "image load",
        ),
    ],
)
def test_engine_refusals(fields: dict[str, Any], values: dict[str, Any], words: str, hint: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        plan(host(**fields), **IMAGE, **values)
    assert caught.value.message == words
    assert hint in caught.value.hint


def test_the_image_must_be_the_same_everywhere() -> None:
    facts = tuple(
        dataclasses.replace(item, engine=engine(image=f"sha256:{letter * 64}"))
        for item, letter in zip(hosts(2), "ab", strict=True)
    )
    with pytest.raises(HostNotReady) as caught:
        plan(*facts, **IMAGE)
    assert caught.value.message.splitlines()[1:] == ["  h1: sha256:aaaaaaaaaaaa", "  h2: sha256:bbbbbbbbbbbb"]
    assert "digest" in caught.value.hint


def test_the_image_id_is_open_while_a_host_has_to_pull() -> None:
    have, have_not = host(engine=engine()), host("h2", "10.0.0.2/24", engine=engine(image=None))
    assert plan(have, **IMAGE).image_id == "sha256:" + "a" * 64
    assert plan(have, have_not, **IMAGE).image_id == ""


def test_a_python_that_cannot_run_is_told() -> None:
    with pytest.raises(HostNotReady, match="h1: /opt/py cannot be run") as caught:
        plan(host(rank_python_problem="/opt/py cannot be run (No such file or directory)"))
    assert "ddp_python for h1" in caught.value.hint


def test_containers_do_not_care_about_the_hosts_python() -> None:
    assert plan(host(rank_python_problem="gone", engine=engine()), **IMAGE).runtime == "docker"


# -- warnings ------------------------------------------------------------------------------------------


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


# -- whole plans ---------------------------------------------------------------------------------------

WHOLE: dict[str, tuple[tuple[HostFacts, ...], dict[str, Any]]] = {
    "process-1-host": (
        (host(slots=2),),
        {
            "name": "digits",
            "source": "/home/ops/repo",
            "command": ["python", "-m", "trainer", "train"],
            "env": {"TOKEN_SPACE": " a b ", "LANG": None},
        },
    ),
    "docker-3-hosts-ethernet": (
        slots(2, 1, 1, engine=engine(), shared=shared()),
        {
            "image": "registry.example.com/team/train:2",
            "source": "/home/ops/repo",
            "mounts": ["/data:/data:ro"],
            "groups": ["video"],
            "cpus": 2,
            "memory": "4g",
            "env": {"OMP_NUM_THREADS": 1, "TEXT": "two\nlines {{ kept }}"},
            "command": [
                *("python", "mnist.py", "--rank", "{rank}", "--world-size", "{world_size}"),
                *("--init-method", "{init_method}", "--backend", "{backend}", "--config", '{"lr": 0.1}'),
            ],
        },
    ),
    "nccl-ib-2-hosts-8-gpus": (
        tuple(ib_host(f"gpu0{n}", n, engine=engine(), nccl_conf=True) for n in (1, 2)),
        {"image": "team/train@sha256:" + "c" * 64, "init_method": "tcp", "timeout": "10m", "max_duration": "12h"},
    ),
}


def whole(name: str) -> Plan:
    facts, values = WHOLE[name]
    return plan(*facts, caller_env={"LANG": "de_DE.UTF-8"}, secret_names=("API_KEY",), **values)


def as_text(made: Plan) -> str:
    return json.dumps(made.to_json(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("name", WHOLE)
def test_golden_plans(name: str) -> None:
    """To take over a wanted change: `python -m tests.golden`, then read the diff."""
    assert as_text(whole(name)) == (GOLDEN / f"plan-{name}.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WHOLE)
def test_the_same_input_gives_the_same_plan(name: str) -> None:
    assert whole(name) == whole(name)
    assert as_text(whole(name)) == as_text(whole(name))


# -- size ----------------------------------------------------------------------------------------------


def test_ten_thousand_ranks_on_many_hosts() -> None:
    """How long it takes is the benchmark's question; here it must be right."""
    facts = tuple(
        ib_host(f"gpu{n}", 1, engine=engine(), interfaces=host("x", f"10.{n // 250}.{n % 250}.7/8").interfaces)
        for n in range(1, 1251)
    )
    made = plan(*facts, image="team/train:2")
    ranks = [rank for item in made.hosts for rank in item.ranks]
    assert ranks == list(range(10000))
    assert made.rank_to_json(9999)["local_rank"] == 7
    assert made.host_of(9999).name == "gpu1250"
    text = json.dumps(made.to_json())
    assert len(text) < 600_000, "what hosts have in common is there once"
    assert plan_from_json(json.loads(text)) == made


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
