"""Terms of a job: from its plan, over a process boundary, and what they change in the findings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.check_levels import judge
from ddp_play.checks.check_scope import CheckScope, scope_from_text
from ddp_play.checks.finding import Status
from ddp_play.checks.fleet import ANY_JOB
from ddp_play.checks.job_terms import JobTerms, terms_from_json, terms_of
from ddp_play.checks.peer_addresses import among
from tests.unit.build import engine, host, job, plan
from tests.unit.checks.fleets import ASKED, facts, fleet

HOSTS = tuple(host(f"h{n}", f"10.0.0.{n}/24", engine=engine()) for n in (1, 2))
DOCKER: dict[str, Any] = {"runtime": "docker", "image": "train:1", "port_range": "29600-29650"}


def test_the_terms_of_a_plan_are_its_network_its_ports_and_the_limits_of_its_ranks() -> None:
    terms = terms_of(job(**DOCKER, shm_size="8g"), plan(*HOSTS, **DOCKER))
    assert terms.network is not None
    assert terms.network.network == "10.0.0.0/24"
    assert terms.network.addresses == (("h1", "10.0.0.1"), ("h2", "10.0.0.2"))
    assert terms.network.interfaces == (("h1", "eth0"), ("h2", "eth0"))
    assert (terms.port_range, terms.in_containers, terms.own_shm) == ((29600, 29650), True, True)
    processes = terms_of(job(runtime="process", shm_size="8g"), plan(*HOSTS, runtime="process"))
    assert (processes.in_containers, processes.own_shm) == (False, False)


def test_a_job_may_choose_among_the_gpus_by_its_environment() -> None:
    assert terms_of(job(env={"CUDA_VISIBLE_DEVICES": "0"}), plan(*HOSTS)).chooses_gpus
    assert not terms_of(job(), plan(*HOSTS)).chooses_gpus


@pytest.mark.parametrize("terms", [ANY_JOB, terms_of(job(**DOCKER), plan(*HOSTS, **DOCKER))])
def test_terms_are_the_same_in_another_process(terms: JobTerms) -> None:
    assert terms_from_json(json.loads(json.dumps(terms.to_json()))) == terms
    scope = CheckScope("full", terms=terms)
    assert scope_from_text(scope.to_text()) == scope


def test_a_host_that_could_not_be_asked_is_not_on_the_network() -> None:
    network = terms_of(job(**DOCKER), plan(*HOSTS, **DOCKER)).network
    assert network is not None
    left = among(network, (facts(2),))
    assert (left.network, left.addresses, left.interfaces) == ("10.0.0.0/24", (("h2", "10.0.0.2"),), (("h2", "eth0"),))


def failed(terms: JobTerms, **change: Any) -> list[str]:
    checked = replace(fleet(h3=change), terms=terms)
    return [row.check for row in judge(checked, "quick", ASKED) if row.status is not Status.OK]


def test_limits_of_the_login_say_nothing_about_containers() -> None:
    few = {"limits.nofile": 256, "limits.memlock": 65536}
    assert failed(ANY_JOB, **few) == ["open files", "locked memory"]
    assert failed(JobTerms(in_containers=True), **few) == []
    small = {"space_shm.size_mib": 16}
    assert failed(JobTerms(in_containers=True), **small) == ["shared memory"]
    assert failed(JobTerms(in_containers=True, own_shm=True), **small) == []


def test_ports_are_told_by_the_range_of_the_job() -> None:
    blocked = [{"peer": "h1", "port": port, "result": "timeout"} for port in (29600, 29650)]
    checked = replace(fleet(h3={"saw:ports": blocked}), terms=JobTerms(port_range=(29600, 29650)))
    (found,) = [row for row in judge(checked, "quick", ASKED) if row.status is Status.FAIL]
    assert found.value == "timeout on 2 tested ports from 29600 to 29650"
