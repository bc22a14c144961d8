"""What ranks run in: engines, images and Pythons of hosts that a plan accepts or refuses."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.errors import HostNotReady
from tests.unit.build import engine, host, hosts, plan

IMAGE: dict[str, Any] = {"image": "team/train:2"}


@pytest.mark.parametrize(
    ("fields", "values", "words", "hint"),
    [
        ({}, {}, "h1: the container engine was not queried", "leave out --cached"),
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
            "adds ops to group docker",
        ),
        (
            {"engine": engine(cli=False)},
            {},
            "h1: the engine responds, but the docker command is missing",
            "ddp-play provision -i INVENTORY --limit h1 --tags docker_engine",
        ),
        (
            {"engine": engine(problem="the engine did not answer on /run/docker.sock within 10 s")},
            {},
            "h1: the engine did not answer on /run/docker.sock within 10 s",
            "on h1: systemctl status docker",
        ),
        (
            {"engine": engine(image=None)},
            {"image_pull": "never"},
            "h1: image team/train:2 is missing and ddp_job_image_pull is never",
            "ddp-play image load -i INVENTORY --limit h1 --image team/train:2",
        ),
    ],
)
def test_engine_refusals(fields: dict[str, Any], values: dict[str, Any], words: str, hint: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        plan(host(**fields), **IMAGE, **values)
    assert caught.value.message == words
    assert hint in caught.value.hint


def test_all_hosts_are_named_each_with_its_remedy() -> None:
    stopped, without = engine(problem="no Docker engine answers"), engine(image=None)
    facts = [host(name, f"10.0.0.{n}/24", engine=without) for n, name in ((1, "h1"), (3, "h3"))]
    with pytest.raises(HostNotReady) as caught:
        plan(facts[0], host("h2", "10.0.0.2/24", engine=stopped), facts[1], **IMAGE, image_pull="never")
    assert caught.value.message.splitlines() == [
        "h1, h3: image team/train:2 is missing and ddp_job_image_pull is never",
        "h2: no Docker engine answers",
    ]
    assert "h1, h3: ddp-play image load -i INVENTORY --limit h1,h3 --image team/train:2" in caught.value.hint
    assert "h2: ddp-play provision -i INVENTORY --limit h2 " in caught.value.hint
    assert caught.value.hosts == ("h1", "h2", "h3")


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
