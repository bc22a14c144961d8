"""How long other hosts get after the first has failed."""

from __future__ import annotations

import pytest

from ddp_play.run.failure_grace import FailureGrace


@pytest.mark.parametrize(("failed_at", "expected"), [(0.5, 3.5), (5.0, 10.0), (60.0, 70.0)])
def test_the_others_get_as_long_again_within_limits(
    monkeypatch: pytest.MonkeyPatch, failed_at: float, expected: float
) -> None:
    now = 100.0
    monkeypatch.setattr("ddp_play.run.failure_grace.time.monotonic", lambda: now)
    grace = FailureGrace()
    now += failed_at
    assert not grace.over(failed=False)
    assert not grace.over(failed=True)
    now = 100.0 + expected - 0.1
    assert not grace.over(failed=True), "a failure that lasts does not start it anew"
    now = 100.0 + expected
    assert grace.over(failed=True)


def test_a_silent_host_that_answers_again_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ddp_play.run.failure_grace.time.monotonic", lambda: now)
    grace = FailureGrace()
    assert not grace.over(failed=True)
    now = 200.0
    assert not grace.over(failed=False)
    assert not grace.over(failed=True), "another failure, another grace"


def test_a_wait_without_a_failure_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    grace = FailureGrace()
    monkeypatch.setattr("ddp_play.run.failure_grace.time.monotonic", lambda: 1e9)
    assert not grace.over(failed=False)
