"""Findings about hosts: each bad fact gives one finding about that host, and a good host gives none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.host_answers import HostAnswer
from ddp_play.checks.host_findings import judge_hosts
from ddp_play.planning.remedy_text import Asked
from tests.unit.build import engine, ethernet, host, shared

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts


def good(number: int, **fields: Any) -> HostFacts:
    facts = host(f"h{number}", f"10.0.0.{number}/24", engine=engine(), shared=shared())
    facts = replace(facts, disk_free_mib=20_000, nofile_hard=1 << 20, clock_offset_s=0.0)
    return replace(facts, **fields)


def judged(*facts: HostFacts, **answer: str) -> dict[str, Finding]:
    """Findings that are not ok, by check. `answer`: fields of the first host's answer."""
    answers = [HostAnswer(row.name, row, **(answer if row is facts[0] else {})) for row in facts]
    return {row.check: row for row in judge_hosts(answers, Asked(("inv",))) if row.status is not Status.OK}


def test_good_hosts_share_their_findings() -> None:
    found = judge_hosts([HostAnswer(f"h{n}", good(n)) for n in (1, 2, 3)], Asked(("inv",)))
    assert {row.status for row in found} == {Status.OK}
    assert {row.where for row in found} == {("h1", "h2", "h3")}
    assert len({row.check for row in found}) == len(found)


@pytest.mark.parametrize(
    ("fields", "check", "status", "value", "command"),
    [
        (
            {"engine": engine(problem="no Docker engine")},
            "engine",
            Status.WARN,
            "no Docker",
            "provision -i inv --limit h1",
        ),
        (
            {"engine": engine(problem="EACCES", permission=True)},
            "engine",
            Status.WARN,
            "may not",
            "usermod -aG docker ops",
        ),
        ({"engine": engine(cli=False)}, "engine", Status.WARN, "without the docker command", "provision"),
        ({"engine": None}, "engine", Status.UNCHECKED, "not asked", ""),
        ({"disk_free_mib": 99}, "host disk", Status.FAIL, "99 MiB", "make room"),
        ({"disk_free_mib": 1023}, "host disk", Status.WARN, "1023 MiB", "make room"),
        ({"clock_offset_s": -2.5}, "host clock", Status.WARN, "-2.5 s", "chronyc makestep"),
        ({"nofile_hard": 1024}, "host open files", Status.WARN, "at most 1024", "provision"),
        ({"gpu_problem": "nvidia-smi: no devices"}, "gpus", Status.FAIL, "no devices", "provision"),
        ({"shared": shared(problem="does not exist")}, "shared directory", Status.FAIL, "does not exist", "provision"),
        ({"drained": "drained by ops"}, "takes runs", Status.WARN, "by ops", "--limit h1 --open"),
    ],
)
def test_a_bad_fact_of_one_host_is_one_finding_about_it(
    fields: dict[str, Any], check: str, status: Status, value: str, command: str
) -> None:
    found = judged(good(1, **fields), good(2), good(3))
    assert list(found) == [check]
    assert (found[check].status, found[check].where) == (status, ("h1",))
    assert value in found[check].value
    assert command in found[check].command
    assert found[check].why or status is Status.UNCHECKED


def test_a_directory_that_the_user_may_not_write_to_needs_no_provisioning() -> None:
    found = judged(good(1, shared=replace(shared(problem="Permission denied"), permission=True)), good(2))
    assert found["shared directory"].command == "let ops write there"


def test_a_user_who_cannot_become_root_is_warned_before_provisioning() -> None:
    found = judged(good(1), good(2), root_problem="sudo: a password is required")
    assert (list(found), found["root rights"].status) == (["root rights"], Status.WARN)


def test_a_host_that_was_not_reached_is_named_and_the_others_are_judged() -> None:
    answers = [HostAnswer("h1", problem="No route to host", hint="ssh h1"), HostAnswer("h2", good(2, disk_free_mib=1))]
    found = [row for row in judge_hosts(answers, Asked(("inv",))) if row.status is Status.FAIL]
    assert [(row.check, row.where, row.unreachable) for row in found] == [
        ("host reached", ("h1",), True),
        ("host disk", ("h2",), False),
    ]
    assert found[0].command == "ssh h1"


@pytest.mark.parametrize(
    ("facts", "check", "where", "value"),
    [
        ((good(1), good(2, machine="m"), good(3, machine="m")), "different machines", ("h2", "h3"), "h2, h3 are one"),
        ((good(1), good(2, shared=None)), "ddp_shared_dir", ("h2",), "not set for some"),
        (
            (good(1), good(2, interfaces=(ethernet("10.9.0.2/32"),))),
            "common network",
            ("h1", "h2"),
            "subnet",
        ),
    ],
)
def test_what_only_several_hosts_show(
    facts: tuple[HostFacts, ...], check: str, where: tuple[str, ...], value: str
) -> None:
    found = judged(*facts)
    assert list(found) == [check]
    assert (found[check].status, found[check].where) == (Status.FAIL, where)
    assert value in found[check].value


def test_several_names_of_one_machine_are_allowed_and_one_host_is_no_group() -> None:
    assert judged(good(1, machine="m"), good(2, machine="m")) == {}
    assert judged(good(1)) == {}
    assert judged(good(1, shared=None), good(2, shared=None)) == {}
