"""The plan as a document: back from JSON unchanged, and each rank's command as a person would type it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import command_line, plan_from_json, ranks_by_host
from tests.unit.build import engine, env, host, hosts, plan, shared
from tests.unit.planning.test_planner_whole_plans import WHOLE, as_text, whole


@pytest.mark.parametrize("name", WHOLE)
def test_plans_survive_json(name: str) -> None:
    made = whole(name)
    assert plan_from_json(json.loads(as_text(made))) == made


def test_the_command_line_is_what_a_person_would_type() -> None:
    made = whole("docker-3-hosts-ethernet")
    assert command_line(made.hosts[0].rank(0)).startswith("docker run --name 'ddp-<run_key>-a<attempt>-r0' --label")
    assert command_line(whole("process-1-host").hosts[0].rank(0)) == "python -m trainer train"


def test_what_equal_hosts_have_in_common_is_there_once() -> None:
    facts = (*hosts(3, slots=2), host("other", "10.0.0.9/16", cpus=64, slots=2))
    document = plan(*facts, launcher="torchrun", rdzv="c10d").to_json()
    # c10d: the head is told that it hosts the store
    assert [row["kind"] for row in document["hosts"]] == [0, 1, 1, 2]
    assert list(map(list, ranks_by_host(document).values())) == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(document["kinds"]) == 3


@pytest.mark.parametrize("values", [{}, {"launcher": "torchrun"}, {"launcher": "torchrun", "rdzv": "c10d"}])
@pytest.mark.parametrize("image", ["", "i"])
def test_a_rank_has_its_own_values(values: dict[str, Any], image: str) -> None:
    """No placeholder of a template is left, and no number of another rank is in its place."""
    made = plan(*hosts(3, slots=2, engine=engine(), shared=shared()), image=image, source="/code", **values)
    item = made.hosts[1]
    for unit in filter(None, (*(item.rank(rank) for rank in item.ranks), item.agent)):
        text = " ".join((*unit.argv, *unit.create, unit.container, *(var.value for var in unit.env)))
        assert "<this_" not in text
        assert "<rank_of_" not in text
    got = [{var.name: var.value for var in item.rank(rank).env} for rank in item.ranks]
    assert [[row[name] for name in ("RANK", "LOCAL_RANK", "GROUP_RANK")] for row in got] == [
        ["2", "0", "1"],
        ["3", "1", "1"],
    ]


def test_a_users_value_that_looks_like_a_placeholder_of_a_rank_is_unchanged() -> None:
    assert env(plan(env={"A": "<this_rank> <this_host>"}))["A"] == "<this_rank> <this_host>"


def test_the_form_of_earlier_versions_is_refused() -> None:
    document = plan().to_json()
    del document["kinds"]
    for read in (plan_from_json, ranks_by_host):
        with pytest.raises(UsageError, match="this plan has the form of an earlier version"):
            read(document)
