"""One host's part of a plan: user, directories, and the commands of its ranks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.host_ranks import fill_placeholders
from ddp_play.planning.job_values import PLACEHOLDERS
from tests.unit.build import engine, host, hosts, plan, shared, user

IMAGE: dict[str, Any] = {"image": "team/train:2"}


def test_shared_directory_holds_the_source_and_only_the_head_sends_it() -> None:
    made = plan(*hosts(2, shared=shared()), source="/code")
    assert made.source_shared
    assert [item.source_dir for item in made.hosts] == ["/shared/.ddp-play/<run_key>/src"] * 2
    assert [item.sends_source for item in made.hosts] == [True, False]


def test_without_one_every_host_gets_its_copy() -> None:
    made = plan(*hosts(2), source="/code")
    assert [item.source_dir for item in made.hosts] == ["<host_dir>/src"] * 2
    assert [item.sends_source for item in made.hosts] == [True, True]
    assert [item.workdir for item in made.hosts] == ["<host_dir>/src"] * 2


def test_ranks_run_as_whoever_connected_even_under_become() -> None:
    become = dataclasses.replace(user("root", 0), login_uid=1000, login_gid=1000, login_name="ops")
    made = plan(host(user=become))
    assert (made.hosts[0].user, made.hosts[0].user_name) == ((1000, 1000), "ops")
    asked = plan(host(user=become), user="5:6")
    assert (asked.hosts[0].user, asked.hosts[0].user_name) == ((5, 6), "5:6")
    with pytest.raises(UsageError, match="may not start ranks for other users"):
        plan(host(), user="5:6")


@pytest.mark.parametrize(
    ("values", "workdir"),
    [
        ({}, "/home/ops"),
        ({"workdir": "/data"}, "/data"),
        ({"source": "/code"}, "<host_dir>/src"),
        ({**IMAGE}, "/"),
        ({**IMAGE, "source": "/code"}, "/workspace"),
        ({**IMAGE, "source": "/code", "workdir": "/w"}, "/w"),
    ],
)
def test_working_directory(values: dict[str, Any], workdir: str) -> None:
    assert plan(host(engine=engine()), **values).hosts[0].workdir == workdir


def test_python_is_the_hosts_own_for_processes() -> None:
    bare = plan(host(rank_python="/opt/conda/bin/python"), command=["{python}", "-V"])
    assert bare.hosts[0].rank(0).argv == ("/opt/conda/bin/python", "-V")
    contained = plan(host(rank_python="/opt/conda/bin/python", engine=engine()), command=["{python}", "-V"], image="i")
    assert contained.hosts[0].rank(0).argv == ("python", "-V")


def test_placeholders_leave_every_other_brace() -> None:
    command = ("python", "-c", '{"a": {rank}, "b": {}}', "{nothing}", "{{rank}}", "{rank}{rank}")
    assert fill_placeholders(command, {"rank": "3"}) == (
        "python",
        "-c",
        '{"a": 3, "b": {}}',
        "{nothing}",
        "{3}",
        "33",
    )


def test_a_command_without_placeholders_is_unchanged() -> None:
    values = dict.fromkeys(PLACEHOLDERS, "x")
    assert fill_placeholders(("python", "train.py", "{}", "{ rank }"), values) == (
        "python",
        "train.py",
        "{}",
        "{ rank }",
    )
