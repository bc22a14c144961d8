"""The table and the document of `ddp-play usage`."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ddp_play.cli.main import app
from ddp_play.cli.usage import _document, _show
from ddp_play.run.host_usage import Usage, Used
from tests.schemas import check

FOUND = Usage(
    86400.0,
    (Used("h1", "night.0123456789abcdef", "kim", 2, 36000.0), Used("h1", "day.0123456789abcdef", "pat", 1, 120.0)),
    {"h1": 2},
    3600.0,
    {"h2": "unreachable"},
)


def test_the_table_of_users(capsys: pytest.CaptureFixture[str]) -> None:
    _show(FOUND, "user")
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()] == [
        ["user", "runs", "slot", "hours", "share"],
        ["kim", "1", "10.00", "21%"],
        ["pat", "1", "0.03", "0%"],
        ["idle", "37.97", "79%"],
    ]
    assert shown.err == "2 slots of 1 host in 24 h 0 min; the first record is 1 h 0 min old\n"


def test_gpus_have_a_column_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (Used("h1", "a.0123456789abcdef", "kim", 2, 36000.0, 200.0, 87.0), Used("h1", "b.x", "pat", 1, 120.0))
    _show(Usage(86400.0, rows, {"h1": 2}, 3600.0, num_gpus=2), "user")
    shown = capsys.readouterr()
    assert [line.split() for line in shown.out.splitlines()] == [
        ["user", "runs", "slot", "hours", "share", "GPU", "busy"],
        ["kim", "1", "10.00", "21%", "44%"],
        ["pat", "1", "0.03", "0%"],
        ["idle", "37.97", "79%"],
    ]
    assert shown.err.endswith("the first record is 1 h 0 min old; the GPUs of runs were 44% busy\n")
    _show(Usage(86400.0, (), {"h1": 2}, num_gpus=2), "user")
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0].endswith("GPU busy")
    assert shown.err == "2 slots of 1 host in 24 h 0 min; no records yet\n"


def test_long_times_are_days(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Usage(30 * 86400.0, slots={"h1": 1}), "host")
    assert capsys.readouterr().err == "1 slot of 1 host in 30 days; no records yet\n"


def test_runs_have_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    _show(FOUND, "run")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["run", "night", "day", "idle"]


def test_a_name_stays_in_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Usage(60.0, (Used("h1", "a.x", "kim\npat  9", 1, 60.0),), {"h1": 1}), "user")
    assert [line[:9] for line in capsys.readouterr().out.splitlines()[1:]] == ["kim pat 9", "idle     "]


def test_no_host_answered(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Usage(60.0, problems={"h2": "unreachable"}), "host")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


@pytest.mark.parametrize("by", ["user", "host", "run"])
def test_the_document_fits_its_schema(by: str) -> None:
    check("usage", _document(FOUND, by))
    check("usage", _document(Usage(60.0, (Used("h1", "a.x", "kim", 1, 60.0, 2.0, 1.0),), {"h1": 1}), by))


@pytest.mark.parametrize(("since", "words"), [("soon", "--since: 'soon' is not a duration"), ("0", "--since is 0")])
def test_a_time_that_is_none(since: str, words: str) -> None:
    done = CliRunner().invoke(app, ["usage", "-i", "inventory", "--since", since])
    assert done.exit_code == 64
    assert words in done.stderr
