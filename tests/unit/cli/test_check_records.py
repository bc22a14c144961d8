"""Lines of `ddp-play check` about the hosts' own records."""

from __future__ import annotations

import pytest

from ddp_play.checks.own_records import OwnRecords
from ddp_play.checks.record_findings import ComparedFigure, ComparedHost
from ddp_play.cli import console
from ddp_play.cli.check_records import show_records

DAY = "2030-01-02T03:04:05Z"
FIGURES = (
    ComparedFigure("cpus", "", 128.0, 128.0, 128.0, "its own record", worse=False),
    ComparedFigure("rate: h2", "Mb/s", 940.0, 410.0, 799.0, "ddp-play", worse=True),
)


def test_comparison_expiry_and_new_records(capsys: pytest.CaptureFixture[str]) -> None:
    compared = (
        ComparedHost("h1", "compared", DAY, figures=FIGURES),
        ComparedHost("h2", "expired", DAY, "kernel 6.1 -> 6.2"),
        ComparedHost("h3", "none", reason="no record was made"),
        ComparedHost("h4", "compared", DAY),
    )
    show_records(OwnRecords(compared, (), ("h1", "h2", "h3"), (("h4", "failed: cpu"),)))
    assert capsys.readouterr().out.splitlines() == [
        "records  h1: 2 figures against 2030-01-02; farthest: rate: h2 410 Mb/s, recorded 940 (44%)",
        "records  h2: that of 2030-01-02 expired: kernel 6.1 -> 6.2",
        "records  h4: 0 figures against 2030-01-02",
        "records  recorded: h[1-3]",
        "records  not recorded: h4: failed: cpu",
    ]


def test_without_records_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_records(OwnRecords((ComparedHost("h1", "none", reason="no record was made"),), ()))
    assert capsys.readouterr().out == ""


def test_a_narrow_terminal_breaks_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = console.SafeConsole(width=40, force_terminal=True, no_color=True, soft_wrap=True, highlight=False)
    monkeypatch.setattr(console, "out", narrow)
    show_records(OwnRecords((ComparedHost("h1", "compared", DAY, figures=FIGURES),), ()))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 40 for line in lines)
