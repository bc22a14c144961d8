"""The check inside a run: what refuses a host, what only warns, and what says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.job_check import judge_start
from ddp_play.run.job_check import Judged
from tests.unit.build import engine, host, job, plan, rdma, shared
from tests.unit.checks.fleets import facts, fleet, readings


def judged(change: dict[str, Any] | None = None, *, on_shared: bool = True, **values: Any) -> Judged:
    """What is said of h1, h2 and h3; `change`: of h3. `values`: of the job."""
    checked = fleet(h3=change or {})
    known = {row.name: row.known for row in checked.hosts}
    answers = {
        row.name: {"readings": row.readings, "reached": row.reached, "ended": row.ended} for row in checked.hosts
    }
    wanted = {"source": "/code", "runtime": "process", **values}
    own = {"shared": shared() if on_shared else None, "engine": engine()}
    made = plan(*(host(f"h{n}", f"10.0.0.{n}/24", **own) for n in (1, 2, 3)), **wanted)
    return judge_start(job(**wanted), made, known, answers)


def test_nothing_is_said_of_hosts_that_are_fit() -> None:
    assert judged() == Judged()
    assert facts(1).shared is not None


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"space_shm.size_mib": 16}, "shared memory: 50000 of 16 MiB free (limit: 512 MiB; fails below 64 MiB)"),
    ({"limits.nofile": 256}, "open files: at most 256"),
    ({"limits.nproc": 100}, "processes limit: at most 100"),
    ({"write_state.problem": "Read-only file system"}, "state directory: /state: Read-only file system"),
    ({"token.problem": "Read-only file system"}, "shared directory: /shared: Read-only file system"),
    ({"saw:tokens.seen": {"h1": None, "h2": None}}, "shared by all: files of other hosts are not seen"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED, ids=lambda part: str(part)[:30])
def test_a_host_on_which_ranks_would_fail_is_refused_with_the_remedy(change: dict[str, Any], text: str) -> None:
    found = judged(change)
    (row,) = found.refused
    assert row.host == "h3"
    assert text in row.why
    assert row.remedy
    assert found.warnings == ()


WARNED: list[tuple[dict[str, Any], str]] = [
    ({"names.h3/addresses": ["127.0.1.1"]}, "h3: own name: h3 is 127.0.1.1; gloo binds to it"),
    ({"identity.machine_id": "id1"}, "h1, h3: machine id: id1; a copied disk image"),
    ({"space_state.free_mib": 9}, "h3: disk of runs: /state: 9 of"),
    ({"space_shm.size_mib": 256}, "h3: shared memory: 50000 of 256 MiB free; data loaders"),
    (
        {"space_state": {"problem": "no answer within 8 s"}},
        "h3: disk of runs could not be checked: no answer within 8 s",
    ),
]


@pytest.mark.parametrize(("change", "text"), WARNED, ids=lambda part: str(part)[:30])
def test_what_may_go_well_is_a_warning(change: dict[str, Any], text: str) -> None:
    found = judged(change)
    assert found.refused == ()
    (warning,) = found.warnings
    assert text in warning


def test_limits_of_the_login_are_not_those_of_containers() -> None:
    container: dict[str, Any] = {"runtime": "docker", "image": "train:1"}
    assert judged({"limits.nofile": 256}, **container) == Judged()
    assert judged({"space_shm.size_mib": 16}, **container).refused
    assert judged({"space_shm.size_mib": 16}, **container, shm_size="8g") == Judged()


def test_without_a_shared_directory_nobody_cares_about_one() -> None:
    assert judged({"token.problem": "Read-only file system"}, on_shared=False) == Judged()


def test_a_host_that_answered_nothing_is_not_refused() -> None:
    made = plan(host("h1", "10.0.0.1/24"), host("h2", "10.0.0.2/24"), runtime="process")
    found = judge_start(job(runtime="process"), made, {"h1": facts(1), "h2": facts(2)}, {})
    assert found.refused == ()
    assert found.warnings[0] == "h1, h2: open files could not be checked: it was not read"
    assert found.warnings[-1].startswith("and ")


def test_a_host_without_facts_is_not_taken_for_fit() -> None:
    made = plan(host("h1", "10.0.0.1/24"), host("h2", "10.0.0.2/24"), runtime="process")
    assert judge_start(job(runtime="process"), made, {}, {}) == Judged(
        (), ("h1, h2: host could not be checked: the bundle has no facts of it",)
    )


def test_many_warnings_are_shortened() -> None:
    change = {"limits.nofile": 2048, "limits.nproc": 300, "space_shm.size_mib": 256, "space_state.free_mib": 1000,
              "identity.machine_id": "id1", "identity.host_keys": ["key1"], "identity.hostname": "h1"}  # fmt: skip
    found = judged(change)
    assert len(found.warnings) == 6
    assert found.warnings[-1] == "and 2 more; ddp-play check -i INVENTORY shows all of them"


ODD = [{"identity.macs": {"e": [1]}}, {"saw:tokens.seen": ["h1"]}, {"token": []}, {"limits": [1]}]


@pytest.mark.parametrize("change", ODD, ids=str)
def test_an_answer_of_another_form_is_said_and_refuses_nothing(change: dict[str, Any]) -> None:
    found = judged(change)
    assert found.refused == ()
    assert any("not what ddp-play's program sends" in text for text in found.warnings)


def test_what_a_host_sends_is_one_line() -> None:
    (row,) = judged({"write_state.problem": "full\nh1: no room"}).refused
    assert "full h1: no room" in row.why


def test_locked_memory_counts_where_the_plan_uses_rdma() -> None:
    few = {"limits.memlock": 65536, "facts.rdma": (rdma(),)}
    assert judged(few) == Judged()


def test_a_file_that_stays_in_the_shared_directory_is_said() -> None:
    (warning,) = judged({"end:token": "Read-only file system"}).warnings
    assert warning.startswith("h3: files of the check: ")


def test_a_few_open_files_are_enough_for_a_job_and_a_warning() -> None:
    (warning,) = judged({"limits.nofile": 777}).warnings
    assert "open files: at most 777" in warning
    assert "fails below 512" in judged({"limits.nofile": 511}).refused[0].why


def test_the_name_of_a_machine_alone_is_its_own_business() -> None:
    alone = facts(1, hostname="vm")
    names = {"value": {"vm": {"addresses": ["127.0.0.1"], "error": "", "took_s": 0.0}}, "took_s": 0.0}
    answers = {"h1": {"readings": {**readings(1, 1), "names": names}, "reached": {}, "ended": {}}}
    wanted: dict[str, Any] = {"runtime": "process"}
    made = plan(host("h1", "10.0.0.1/24"), **wanted)
    assert judge_start(job(**wanted), made, {"h1": alone}, answers) == Judged()


def test_a_job_that_keeps_nothing_in_the_shared_directory_is_only_warned() -> None:
    change = {"saw:tokens.seen": {"h1": None, "h2": None}}
    found = judged(change, source="")
    assert found.refused == ()
    assert found.warnings[0].startswith("h3: shared by all: ")
    assert judged(change, source="", init_method="file").refused
