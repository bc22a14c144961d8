"""Values of job variables as YAML and command lines give them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ddp_play.planning import job_values
from ddp_play.planning.job_values import parse_seconds


@pytest.mark.parametrize(
    ("convert", "value", "expected"),
    [
        (parse_seconds, " 1.5 m ", 90),
        (job_values.split_command, "python 't 1.py'", ["python", "t 1.py"]),
        (job_values.split_command, ["t", 1, 0.5, True], ["t", "1", "0.5", True]),
        (job_values.port_range, "29500 - 29600", (29500, 29600)),
        (job_values.port_range, 29500, (29500, 29500)),
        (job_values.host_range, "all", (0, 0)),
        (job_values.host_range, "2..", (2, 0)),
        (job_values.ranks_per_host, " 4 ", 4),
        (job_values.env_texts, {"A": True, "B": 0.5, "C": None}, {"A": "1", "B": "0.5", "C": None}),
        (job_values.mounts, ["/a:/b:ro"], [{"source": "/a", "target": "/b", "read_only": True}]),
    ],
)
def test_texts_become_values(convert: Any, value: Any, expected: Any) -> None:
    assert convert(value) == expected


@pytest.mark.parametrize(
    ("convert", "value", "words"),
    [
        (job_values.port_range, "a-b", "write 29500-29999"),
        (job_values.host_range, "4..2", "write all, 4, 2..4 or 2.."),
        (job_values.ranks_per_host, "0", "a number from 1 up"),
        (job_values.mounts, ["/a:/b:x"], "is not source:target"),
        (parse_seconds, True, "a number of seconds"),
    ],
)
def test_others_are_refused(convert: Any, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        convert(value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python t.py {rnk}", "there is no placeholder {rnk}; did you mean {rank}?"),
        (["t", "--x={worldsize}"], "there is no placeholder {worldsize}; did you mean {world_size}?"),
        (["t", "{LOCAL_RANK}"], "there is no placeholder {LOCAL_RANK}; did you mean {local_rank}?"),
        (["t", {"rank": None}], '{rank} without quotes is a mapping in YAML: quote it, "{rank}"'),
        ({"rank": None}, '{rank} without quotes is a mapping in YAML: quote it, "{rank}"'),
    ],
)
def test_a_misspelt_or_unquoted_placeholder(command: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        job_values.split_command(command)


@pytest.mark.parametrize(
    "word", ["${RANK}", "{print}", '{"rnk": 1}', "{}", "{{rnk}}", "{ rnk }", "{nothing}", "{home}"]
)
def test_braces_that_are_no_placeholders_stay(word: str) -> None:
    assert job_values.split_command(["sh", word]) == ["sh", word]


def test_a_program_after_c_has_its_own_braces() -> None:
    command = ["python", "-c", 'print(f"{ranks}")']
    assert job_values.split_command(command) == command


@pytest.mark.parametrize(("value", "count"), [(2, 2), ("8", 8), (2.0, 2), (0, 0), (-1, -1)])
def test_a_number_of_slots(value: Any, count: int) -> None:
    assert job_values.slot_count(value) == count


@pytest.mark.parametrize("value", [1.5, True, "2x", "", [], None])
def test_no_number_of_slots(value: Any) -> None:
    with pytest.raises(ValueError, match=r"no|invalid"):
        job_values.slot_count(value)
