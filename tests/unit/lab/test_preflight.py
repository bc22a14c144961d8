"""Everything that a machine lacks for a lab is reported at once."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.lab import machine_resources
from ddp_play.lab.preflight import (
    as_one,
    connect_or_report,
    engine_problems,
    first_result,
    low_limits,
    machine_problems,
)
from ddp_play.lab.requirements import KernelLimit, RankImageNeeds
from ddp_play.lab.spec import LabSpec, make_spec

SPEC = make_spec(LabSpec("t", 128, ()))
DISK = HostNotReady("too little disk", hint="docker system df")
TAKEN = UsageError("--subnet overlaps another network", hint="leave --subnet out")


def test_a_single_problem_stays_as_it_is() -> None:
    assert as_one([TAKEN]) is TAKEN


def test_several_problems_are_one_error_with_the_command_for_each() -> None:
    error = as_one([TAKEN, DISK, HostNotReady("no hint")])
    assert error.message.splitlines() == [
        "this lab cannot be started, for 3 reasons",
        "  1. --subnet overlaps another network",
        "     -> leave --subnet out",
        "  2. too little disk",
        "     -> docker system df",
        "  3. no hint",
    ]


def test_a_result_without_problems_is_returned() -> None:
    assert first_result(lambda: 7, []) == 7


def test_other_problems_are_named_with_the_error_of_the_plan() -> None:
    def fail() -> int:
        raise TAKEN

    with pytest.raises(UsageError, match="overlaps"):
        first_result(fail, [])
    with pytest.raises(HostNotReady, match="too little disk") as caught:
        first_result(fail, [DISK])
    assert "--subnet overlaps" in caught.value.message
    with pytest.raises(HostNotReady, match="too little disk"):
        first_result(lambda: 7, [DISK])


def test_what_the_image_of_the_ranks_lacks_counts_without_new_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = None  # not asked: no host is new
    assert machine_problems(client, SPEC, 0) == []
    assert machine_problems(client, SPEC, 0, RankImageNeeds((DISK,))) == [DISK]


def test_without_an_engine_the_missing_programs_are_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostNotReady) as caught:
        connect_or_report(SPEC)
    for words in ("no Docker engine answers at unix:///nowhere", "ssh and ssh-keygen not found", "openssh-client"):
        assert words in caught.value.message


def test_memory_is_named_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setattr(machine_resources, "_available_memory_mib", lambda: 500)
    with pytest.raises(HostNotReady, match="128 new hosts need about 16896 MiB of memory"):
        connect_or_report(SPEC)


@pytest.mark.parametrize(
    ("options", "api", "words"),
    [
        (["name=seccomp,profile=default"], "1.41", ""),
        ([], "1.51", ""),
        ([], "", ""),
        ([], "1.40", "older than 20.10"),
        (["name=rootless"], "1.51", "rootless"),
    ],
)
def test_engines_that_cannot_run_hosts(options: list[str], api: str, words: str) -> None:
    found = engine_problems(options, api)
    assert [words in row.message for row in found] == ([True] if words else [])


def test_low_limits_come_with_the_command_that_raises_them() -> None:
    limits = (KernelLimit("fs.inotify.max_user_instances", 384, 4096), KernelLimit("kernel.keys.maxkeys", 100, 10_000))
    message = low_limits(limits).message
    assert "sysctl -w fs.inotify.max_user_instances=4096 kernel.keys.maxkeys=10000" in message
