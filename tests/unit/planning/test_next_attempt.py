"""Plans of later attempts: the same job on the hosts that are left, and on spares."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.planning.host_facts import HostFacts
from ddp_play.planning.job import job_from_json
from ddp_play.planning.next_attempt import Fleet, callers_values
from tests.unit.build import env, hosts, job, plan

WHY = {"h2": "silent for 30 s"}


def raw(host: HostFacts) -> dict[str, Any]:
    """Facts as discovery writes them."""
    row = dataclasses.asdict(host)
    row["user"]["groups"] = dict(row["user"]["groups"])
    row["rank_python"] = {"path": host.rank_python, "problem": host.rank_python_problem}
    row["numa"] = {"nodes": row["numa_nodes"], "numactl": host.numactl}
    row["inventory"] = {"slots": host.slots, "interface": host.interface}
    return {
        key: value for key, value in row.items() if key not in ("name", "slots", "interface", "rank_python_problem")
    }


def fleet(count: int, *, problems: tuple[dict[str, Any], ...] = (), **values: Any) -> Fleet:
    made = job(restarts=1, **values)
    facts = {host.name: raw(host) for host in hosts(count)}
    return Fleet.from_json(
        json.loads(json.dumps(Fleet(made, facts, problems, (), {"TOKEN": "t"}).to_json())),
        job_from_json(json.loads(made.model_dump_json())),
    )


def names(made: Any) -> list[str]:
    return [host.name for host in made.hosts]


def test_another_plan_has_the_same_secrets() -> None:
    first = dataclasses.replace(fleet(2), secret_names=("A",), secret_env=("HF_TOKEN",))
    kept = Fleet.from_json(json.loads(json.dumps(first.to_json())), first.job)
    assert kept.secrets == {"A", "HF_TOKEN"}
    made, _ = kept.plan(gone={}, suspects={}, wanted=2)
    assert (env(made)["HF_TOKEN"], "A_FILE" in env(made)) == ("<secret>", True)
    assert callers_values(made) == {}


def test_a_spare_takes_the_place_of_a_host_that_is_gone() -> None:
    made, retired = fleet(4, spares=["h4"]).plan(gone=WHY, suspects={}, wanted=3)
    assert (names(made), retired) == (["h1", "h3", "h4"], WHY)
    assert made.world_size == 3
    assert dict(made.left_out) == {"h2": "retired: silent for 30 s"}


def test_without_a_spare_a_range_goes_on_with_fewer() -> None:
    made, _ = fleet(3, hosts="2..").plan(gone=WHY, suspects={}, wanted=3)
    assert names(made) == ["h1", "h3"]


def test_too_few_hosts_say_who_is_gone_and_what_to_do() -> None:
    with pytest.raises(HostNotReady, match="h2: retired: silent for 30 s") as caught:
        fleet(3).plan(gone=WHY, suspects={}, wanted=3)
    assert "group spares" in caught.value.hint


def test_a_suspect_is_retired_only_where_another_host_stands_in() -> None:
    made, retired = fleet(4, spares=["h4"]).plan(gone={}, suspects=WHY, wanted=3)
    assert (names(made), retired) == (["h1", "h3", "h4"], WHY)
    for wanted in ("all", "2.."):
        made, retired = fleet(3, hosts=wanted).plan(gone={}, suspects=WHY, wanted=3)
        assert (names(made), retired) == (["h1", "h2", "h3"], {})


def test_a_spare_that_was_never_reachable_stays_out() -> None:
    away = {"host": "h9", "kind": "unreachable", "message": "no route", "hint": ""}
    made, _ = fleet(3, spares=["h9"], problems=(away,), hosts="2..").plan(gone=WHY, suspects={}, wanted=3)
    assert (names(made), dict(made.left_out)["h9"]) == (["h1", "h3"], "no route")


def test_bare_keys_keep_the_values_of_the_first_caller() -> None:
    first = plan(*hosts(2), env={"TOKEN": None, "A": "b"}, caller_env={"TOKEN": "t", "HOME": "/root"})
    assert callers_values(first) == {"TOKEN": "t"}
    made, _ = fleet(3, env={"TOKEN": None}).plan(gone={}, suspects={}, wanted=3)
    assert env(made)["TOKEN"] == "t"
