"""Rows that modules return for the changes that they make or would make."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.module_utils import changes

from ddp_play.provisioning.change_listing import KEY, ChangeKind, Owner


@pytest.mark.parametrize(
    ("unit", "load", "active", "restarts", "expected"),
    [
        ("x.service", "not-found", "inactive", True, ("add", "unit x.service", "new")),
        ("x.service", "loaded", "active", True, ("restart", "unit x.service", "theirs")),
        ("ddp-x.service", "loaded", "active", True, ("restart", "unit ddp-x.service", "ours")),
        ("x.service", "loaded", "inactive", True, ("change", "unit x.service (enable, start)", "theirs")),
        ("x.service", "loaded", "active", False, ("change", "unit x.service (enable, start)", "theirs")),
    ],
)
def test_rows_of_a_unit(unit: str, load: str, active: str, restarts: bool, expected: tuple[str, str, str]) -> None:
    assert tuple(changes.unit_change(unit, load, active, restarts).values()) == expected


def test_rows_of_packages() -> None:
    found = changes.package_changes(["a"], ["b", "c"], ["d"], own=["c"])
    assert [tuple(row.values()) for row in found] == [
        ("remove", "package b", "theirs"),
        ("remove", "package c", "ours"),
        ("change", "package d", "theirs"),
        ("add", "package a", "new"),
    ]


def test_the_listing_reads_what_the_modules_write() -> None:
    assert changes.KEY == KEY
    assert {changes.ADD, changes.CHANGE, changes.RESTART, changes.REMOVE, changes.REBOOT} == set(ChangeKind)
    assert {changes.NEW, changes.OURS, changes.THEIRS} == set(Owner)
