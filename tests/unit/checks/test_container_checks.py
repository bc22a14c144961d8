"""Findings about the containers of a job: what a program in one read, and what the engine or the host refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.check_levels import judge
from ddp_play.checks.container_checks import STARTED, judge_containers, ranks, torch_in
from ddp_play.checks.finding import Finding, Status, exit_code
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.job_terms import JobTerms
from tests.unit.build import gpus
from tests.unit.checks.fleets import ASKED, fleet

TERMS = JobTerms(in_containers=True, image="train:1", own_shm=True, may_use_rdma=False, least_files=512)
WELL: dict[str, dict[str, Any]] = {
    "start": {"python": "/usr/bin/python3", "uid": 1000, "gid": 1000, "host": "h"},
    "limits": {"nofile": 1 << 20, "memlock": 65536, "nproc": None, "pids": None},
    "memory": {"size_mib": 8192, "free_mib": 8000},
    "devices": {"gpus": 0, "rdma": []},
    "versions": {"python": "3.11.2", "torch": "2.13.0", "numpy": ""},
    "names": {"found": {f"h{n}": {"addresses": [f"10.0.0.{n}"], "error": ""} for n in (1, 2, 3)}},
    "directories": {"found": {"work directory": {"path": "/workspace", "problem": ""},
                              "shared directory": {"path": "/shared", "problem": ""}}},
}  # fmt: skip


def answer(**changed: dict[str, Any]) -> dict[str, Any]:
    """What a host answers whose container is well, but for these parts."""
    parts = [{"part": name, **row, **changed.get(name, {})} for name, row in WELL.items()]
    return {"program": {"value": {"parts": parts, "seconds": 0.5}}, "left": {"value": []}}


def nothing(problem: str, **more: Any) -> dict[str, Any]:
    return {"program": {"value": {"parts": [], "problem": problem, **more}}, "left": {"value": []}}


def containers(terms: JobTerms = TERMS, host: dict[str, Any] | None = None, **answers: dict[str, Any]) -> Fleet:
    """Three hosts whose containers are well, but for these answers. `host`: readings of h2."""
    made = fleet(h2=host or {})
    hosts = tuple(replace(row, container=answers.get(row.name, answer())) for row in made.hosts)
    return replace(made, hosts=hosts, terms=terms)


def bad(found: Fleet) -> list[Finding]:
    return [row for row in ranks(found) if row.status is not Status.OK]


def test_containers_that_are_well_pass() -> None:
    rows = list(ranks(containers()))
    assert {row.status for row in rows} == {Status.OK}
    assert {row.check for row in rows} == {
        STARTED, "rank open files", "rank processes limit", "rank pids limit", "rank shared memory", "rank own name",
        "rank names of peers", "rank work directory", "rank shared directory", "rank version: python",
        "rank version: torch",
    }  # fmt: skip
    assert {row.where for row in judge_containers(containers(), ASKED)} == {("h1", "h2", "h3")}
    assert not any(row.check.startswith("rank ") for row in judge(containers(), "quick", ASKED)), "no host is to blame"


def test_nothing_is_said_of_ranks_that_are_processes() -> None:
    assert list(ranks(fleet())) == []


DEFECTS = (
    ({"limits": {"nofile": 256}}, "rank open files", Status.FAIL, "at most 256"),
    ({"limits": {"nofile": 1024}}, "rank open files", Status.WARN, "at most 1024"),
    ({"limits": {"nproc": 50}}, "rank processes limit", Status.FAIL, "at most 50"),
    ({"limits": {"pids": {"max": 60, "now": 3}}}, "rank pids limit", Status.FAIL, "3 of 60 in use"),
    ({"memory": {"size_mib": 16, "free_mib": 16}}, "rank shared memory", Status.FAIL, "16 of 16 MiB free"),
    ({"memory": {"size_mib": 64, "free_mib": 64}}, "rank shared memory", Status.WARN, "64 of 64 MiB free"),
    ({"versions": {"torch": "2.12.1"}}, "rank version: torch", Status.FAIL, "2.12.1"),
    ({"versions": {"python": "3.9.2"}}, "rank version: python", Status.WARN, "3.9.2"),
    ({"names": {"found": {**WELL["names"]["found"], "h2": {"addresses": ["127.0.1.1"], "error": ""}}}},
     "rank own name", Status.WARN, "h2 is 127.0.1.1"),
    ({"names": {"found": {**WELL["names"]["found"], "h3": {"addresses": ["10.0.0.1"], "error": ""}}}},
     "rank names of peers", Status.FAIL, "h3 is 10.0.0.1"),
    ({"directories": {"found": {"shared directory": {"path": "/shared", "problem": "Permission denied"}}}},
     "rank shared directory", Status.FAIL, "/shared in the container: Permission denied"),
)  # fmt: skip


@pytest.mark.parametrize(("changed", "check", "status", "value"), DEFECTS)
def test_a_defect_is_one_finding_of_its_host(
    changed: dict[str, dict[str, Any]], check: str, status: Status, value: str
) -> None:
    (found,) = bad(containers(h2=answer(**changed)))
    assert (found.check, found.status, found.where, found.value) == (check, status, ("h2",), value)
    assert all((found.why, found.limit, found.source, found.look))
    assert "IMAGE" not in found.look


def test_what_the_host_says_of_itself_is_not_said_again_of_its_container() -> None:
    loopback = {"names.h2": {"addresses": ["127.0.1.1"], "error": "", "took_s": 0.0}}
    names = {"found": {**WELL["names"]["found"], "h2": {"addresses": ["127.0.1.1"], "error": ""}}}
    assert bad(containers(host=loopback, h2=answer(names=names))) == []
    row = {"found": {"shared directory": {"path": "/shared", "problem": "Read-only file system"}}}
    assert bad(containers(host={"token.problem": "Read-only file system"}, h2=answer(directories=row))) == []
    small = answer(memory={"size_mib": 16, "free_mib": 16})
    assert bad(containers(replace(TERMS, own_shm=False), h2=small)) == [], "it is the /dev/shm of the host"


def test_what_the_engine_refuses_fails_and_all_else_is_not_said_of_this_host() -> None:
    refused = nothing("cannot create the container of rank 0: invalid mount", refused=True, hint="make /data on HOSTS")
    (found,) = bad(containers(h2=refused))
    assert (found.check, found.status, found.where) == (STARTED, Status.FAIL, ("h2",))
    assert (found.value, found.command) == (refused["program"]["value"]["problem"], "make /data on HOSTS")
    (found,) = bad(containers(h2=nothing("exit code 1: no licence")))
    assert (found.status, found.value) == (Status.FAIL, "it ends before its program starts: exit code 1: no licence")


@pytest.mark.parametrize(
    ("said", "broken", "code"),
    [
        (nothing("no end within 15 s"), True, 69),
        (nothing("no Docker engine answers on /var/run/docker.sock (refused)"), True, 69),
        (nothing("image train:1 is not on this host", missing=True), False, 0),
        ({"program": {"problem": "no answer within 35 s"}, "left": {"value": []}}, True, 69),
        ({}, True, 69),
    ],
)
def test_what_could_not_be_tried_is_not_run_once(said: dict[str, Any], broken: bool, code: int) -> None:
    (found,) = bad(containers(h2=said))
    assert (found.check, found.status, found.where, found.broken) == (STARTED, Status.UNCHECKED, ("h2",), broken)
    assert exit_code([found]) == code


def test_an_image_without_python_is_not_read() -> None:
    said = {"program": {"value": {"parts": [{"part": "no python"}]}}, "left": {"value": []}}
    (found,) = bad(containers(h2=said))
    assert (found.status, found.broken) == (Status.UNCHECKED, False)
    assert "has no Python" in found.value


def test_a_part_that_failed_is_not_run_and_the_others_count() -> None:
    said = answer()
    said["program"]["value"]["parts"][2] = {"part": "memory", "problem": "FileNotFoundError: /dev/shm"}
    (found,) = bad(containers(h2=said))
    assert (found.check, found.status, found.broken) == ("rank shared memory", Status.UNCHECKED, True)


def test_what_is_left_is_a_warning() -> None:
    said = {**answer(), "left": {"value": ["container ddp-check: the engine did not answer"]}}
    (found,) = bad(containers(h2=said))
    assert (found.check, found.status) == ("files of the container", Status.WARN)
    assert found.command.startswith("ddp-play gc -i INVENTORY")


def test_what_is_left_of_a_container_with_a_load_is_a_warning() -> None:
    text = "container ddp-check: the engine did not answer"
    (found,) = bad(containers(h2={**answer(), "end": {"left": [text]}}))
    assert (found.check, found.status, found.value) == ("files of the container", Status.WARN, text)
    twice = {**answer(), "left": {"value": [text]}, "end": {"left": [text, "another"]}}
    assert [row.value for row in bad(containers(h2=twice))] == [f"{text}; another"]
    assert bad(containers(h2={**answer(), "end": {"left": []}})) == []


@pytest.mark.parametrize("end", [None, {"left": 3}, {}])
def test_without_an_answer_at_the_end_nobody_knows_what_is_left(end: Any) -> None:
    (found,) = bad(containers(h2={**answer(), "end": end}))
    assert (found.check, found.status, found.broken) == ("files of the container", Status.UNCHECKED, True)


def test_an_image_without_torch_is_a_warning() -> None:
    without = answer(versions={"torch": ""})
    rows = bad(containers(h1=without, h2=without, h3=without))
    assert {(row.check, row.status, row.value) for row in rows} == {("rank version: torch", Status.WARN, "none")}
    assert torch_in(containers().hosts[0]) == "2.13.0"


def test_gpus_that_the_container_does_not_have() -> None:
    terms = replace(TERMS, uses_gpus=True)
    hosts = tuple(replace(row, facts=replace(row.known, gpus=gpus(2))) for row in containers(terms).hosts)
    rows = bad(replace(containers(terms), hosts=hosts))
    assert {(row.check, row.value) for row in rows} == {("rank gpus", "0 of 2 GPUs")}


@pytest.mark.parametrize("said", [{"program": {"value": 3}}, {"program": {"value": {"parts": [7]}}}, {"program": []}])
def test_an_answer_of_another_form_never_passes(said: dict[str, Any]) -> None:
    found = judge_containers(containers(h2=said), ASKED)
    assert any(row.status is Status.UNCHECKED and "h2" in row.where for row in found)
