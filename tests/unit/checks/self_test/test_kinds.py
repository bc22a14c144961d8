"""The table of defects: every kind is made, or it is said why not, and every row can be run and judged."""

from __future__ import annotations

import re
import subprocess

import pytest

from ddp_play.checks.self_test.defect import Defect, filled
from ddp_play.checks.self_test.kinds import DEFECTS, KINDS, NOT_MADE

HOSTS = {f"h{number}": f"lab-h{number}" for number in range(1, 5)}
ADDRESSES = {f"a{number}": f"10.0.0.{number}" for number in range(1, 5)}
VALUES = {**HOSTS, **ADDRESSES, "net": "10.0.0", "cpus": "2", "files": "/code"}


def test_each_kind_is_made_or_has_a_reason() -> None:
    made = {defect.number for defect in DEFECTS}
    assert made | NOT_MADE.keys() == KINDS.keys()
    assert not made & NOT_MADE.keys()
    assert list(KINDS) == list(range(1, 46))


def test_names_are_distinct() -> None:
    names = [defect.name for defect in DEFECTS]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_commands_have_all_values_and_are_shell(defect: Defect) -> None:
    for command in (defect.seed, defect.mend):
        text = filled(command, VALUES)
        assert not re.search(r"\{[a-z]+\d?\}", text), text
        subprocess.run(["sh", "-n", "-c", text], check=True)


@pytest.mark.parametrize("defect", DEFECTS, ids=str)
def test_what_must_be_found_is_about_hosts_that_are_checked(defect: Defect) -> None:
    for wanted in defect.wanted:
        assert wanted.result in ("fail", "warn", "not run")
        assert wanted.where
        assert set(wanted.where) | {host for way in wanted.ways for host in way} <= set(defect.hosts)
