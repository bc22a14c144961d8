"""Whole plans against golden files, and how large they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.planning.plan_document import Plan, plan_from_json
from tests.unit.build import apptainer, engine, host, ib_host, plan, shared, slots

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts

GOLDEN = Path(__file__).parents[1] / "golden"
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
    "apptainer-2-hosts-8-gpus": (
        tuple(ib_host(f"gpu0{n}", n, apptainer=apptainer(), nccl_conf=True, shared=shared()) for n in (1, 2)),
        {"image": "/shared/train.sif", "source": "/home/ops/repo", "mounts": ["/data:/data:ro"]},
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
