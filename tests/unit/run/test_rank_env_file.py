"""The env-file of a rank: exact where docker's format allows, described where it does not."""

from __future__ import annotations

import pytest

from ddp_play.planning.launch_placeholders import MASKED
from ddp_play.planning.rank_environment import EnvVar
from ddp_play.run.rank_env_file import render_env_file


def render(*values: tuple[str, str, str]) -> list[str]:
    env = tuple(EnvVar(name, value, source) for name, value, source in values)
    text = render_env_file(env, rank=3, host="h1", run_id="calm-otter-1")
    assert text.endswith("\n")
    return text.splitlines()


def read(lines: list[str]) -> dict[str, str]:
    """As docker reads it: no quotes, no escapes, comments are lines that begin with #."""
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        "",
        " spaces around ",
        'it\'s "quoted"',
        "$HOME `x` \\n",
        "{{ template }} {% x %}",
        "<b>&amp;</b>",
        "größe λ 漢字",
        "a=b#c",
    ],
)
def test_values_are_exact(value: str) -> None:
    assert read(render(("V", value, "job: ddp_job_env"))) == {"V": value}


@pytest.mark.parametrize("value", ["two\nlines", "\n", "dos\r\n", "carriage\rreturn"])
def test_values_of_several_lines_are_described(value: str) -> None:
    lines = render(("BEFORE", "1", "x"), ("V", value, "job: ddp_job_env"), ("AFTER", "2", "y"))
    assert read(lines) == {"BEFORE": "1", "AFTER": "2"}
    assert [line for line in lines if "V has several lines" in line and "(job: ddp_job_env)" in line]


def test_a_secret_is_described() -> None:
    text = render_env_file((EnvVar("T", MASKED, "job", late=True), EnvVar("A", "1", "x")), rank=0, host="h", run_id="r")
    assert text.splitlines()[1:] == ["# T is a secret, which only the rank got (job)", "# x", "A=1"]


def test_sources_stand_above_their_values() -> None:
    assert render(("A", "1", "plan: rank"), ("B", "2", "job: ddp_job_env, instead of x\ny")) == [
        "# rank 3 on h1, run calm-otter-1",
        "# plan: rank",
        "A=1",
        "# job: ddp_job_env, instead of x y",
        "B=2",
    ]


def test_without_variables_there_is_only_the_title() -> None:
    assert render() == ["# rank 3 on h1, run calm-otter-1"]


@pytest.mark.parametrize("separator", ["\N{LINE SEPARATOR}", "\x0b", "\x85"])
def test_what_only_unicode_calls_a_line_end_is_no_line_end(separator: str) -> None:
    text = render_env_file((EnvVar("V", f"a{separator}b", "job"),), rank=0, host="h", run_id="r")
    assert f"V=a{separator}b" in text.split("\n")
