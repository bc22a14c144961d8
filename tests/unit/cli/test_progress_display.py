"""Progress without a terminal: steps are printed, details are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.cli.progress_display import progress

if TYPE_CHECKING:
    import pytest


def test_steps_are_lines_and_details_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("lab demo") as listener:
        listener.step("building [base]")
        listener.detail("step 1 of 9")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "building [base]" in captured.err.splitlines()
    assert "step 1 of 9" not in captured.err
