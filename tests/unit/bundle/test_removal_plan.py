"""Which bundles go and which stay, as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddp_play.bundle.removal_plan import DAY_S, BundleRecord, Rules, plan_removal

NOW = 100 * DAY_S
OLD = BundleRecord("old", created=1.0, since=1.0)
RM = Rules()
PRUNE = Rules(keep=0, older_than_s=30 * DAY_S)
ALL = Rules(with_artifacts=True, with_uncollected=True)
YESTERDAY = NOW - DAY_S - 1


def test_nothing_to_judge() -> None:
    plan = plan_removal([], PRUNE, now=NOW)
    assert (plan.going, plan.kept) == ((), ())


@pytest.mark.parametrize(
    ("record", "rules", "why"),
    [
        (OLD, RM, ""),
        (OLD, PRUNE, ""),
        (replace(OLD, attended=True), ALL, "a process works on it"),
        (replace(OLD, final=False, ranks_may_live=True), ALL, "its ranks may run"),
        (replace(OLD, final=False, since=NOW - 60), ALL, "it has not ended"),
        (replace(OLD, final=False, never_started=True), PRUNE, ""),
        (replace(OLD, link="/data/old"), ALL, "symbolic link to /data/old"),
        (replace(OLD, unreadable="written by another version"), ALL, "written by another version"),
        (replace(OLD, uncollected="files on h1"), RM, "files on h1; ddp-play attach old"),
        (replace(OLD, uncollected="files on h1"), Rules(with_artifacts=True), "files on h1"),
        (replace(OLD, uncollected="files on h1"), Rules(with_uncollected=True), ""),
        (replace(OLD, artifacts=True), RM, "--with-artifacts"),
        (replace(OLD, artifacts=True), PRUNE, "--with-artifacts"),
        (replace(OLD, artifacts=True), Rules(with_artifacts=True), ""),
        (replace(OLD, since=YESTERDAY), RM, ""),
        (replace(OLD, since=YESTERDAY), PRUNE, "younger than --older-than"),
        (OLD, Rules(keep=1), "among the newest 1"),
        (replace(OLD, since=YESTERDAY, never_started=True), Rules(50, 30 * DAY_S), ""),
        (replace(OLD, since=NOW - 60, never_started=True), PRUNE, "younger than a day"),
        (replace(OLD, since=NOW - 60, never_started=True), RM, ""),
        (replace(OLD, since=NOW - 60, never_started=True), Rules(0, 30.0), ""),
    ],
)
def test_one_bundle(record: BundleRecord, rules: Rules, why: str) -> None:
    plan = plan_removal([record], rules, now=NOW)
    if why:
        (kept,) = plan.kept
        assert why in kept.why
        assert plan.going == ()
    else:
        assert (plan.going, plan.kept) == ((record,), ())


def test_the_newest_stay_and_runs_that_never_started_do_not_count() -> None:
    records = [replace(OLD, run=f"r{number}", created=float(number)) for number in range(4)]
    typo = replace(OLD, run="typo", created=9.0, never_started=True)
    plan = plan_removal([*records, typo], Rules(keep=2), now=NOW)
    assert [record.run for record in plan.going] == ["typo", "r1", "r0"]
    assert [(kept.record.run, kept.routine) for kept in plan.kept] == [("r3", True), ("r2", True)]
