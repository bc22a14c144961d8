"""Packages that a role's transactions added are recorded, and no others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.modules import added_packages

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import accepted, documented

if TYPE_CHECKING:
    from pathlib import Path

BEFORE = ["bash", "dkms"]


def answer(folder: Path, *rows: str, check: bool = False, **arguments: Any) -> dict[str, Any]:
    """The module's answer on a host with apt whose dpkg has these rows."""
    (folder / "rows").write_text("".join(f"{row}\n" for row in rows))
    for name, script in (("dpkg-query", f"cat {folder}/rows"), ("apt-get", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    given = {"role": "nvidia_driver", "record": str(folder / "record.json"), "_ansible_check_mode": check, **arguments}
    return FORKER.answer(added_packages.__file__, given, path=str(folder))


def test_the_argument_spec_is_the_documented_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, added_packages) == documented(added_packages)


def test_a_listing_changes_nothing(tmp_path: Path) -> None:
    """A package that left its configuration counts: to purge it is not this role's business."""
    found = answer(tmp_path, "bash installed", "dkms config-files", "gone not-installed")
    assert (found["changed"], found["packages"]) == (False, BEFORE)
    assert not (tmp_path / "record.json").exists()


@pytest.mark.parametrize("check", [False, True])
def test_new_packages_are_recorded(tmp_path: Path, check: bool) -> None:
    rows = ("bash installed", "dkms installed", "libcuda1 installed", "gpg-pubkey installed")
    found = answer(tmp_path, *rows, before=BEFORE, check=check)
    assert (found["changed"], found["packages"]) == (not check, ["libcuda1"])
    assert (tmp_path / "record.json").exists() != check


def test_a_second_record_keeps_the_first(tmp_path: Path) -> None:
    answer(tmp_path, "bash installed", "dkms installed", "libcuda1 installed", before=BEFORE)
    again = answer(tmp_path, "bash installed", "dkms installed", "nvtop installed", before=BEFORE)
    assert again["changed"]
    unchanged = answer(tmp_path, "bash installed", before=["bash"])
    assert unchanged["changed"] is False
    assert json.loads((tmp_path / "record.json").read_text())["nvidia_driver"]["packages"] == ["libcuda1", "nvtop"]


def record_of(folder: Path) -> Any:
    path = folder / "record.json"
    return json.loads(path.read_text())["nvidia_driver"] if path.exists() else None


def test_an_installation_that_is_cut_off_leaves_its_packages_to_the_role(tmp_path: Path) -> None:
    """The power fails before the second task. What was there before is not among them."""
    answer(tmp_path, "bash installed", names=["bash", "libcuda1", "nvtop"])
    assert record_of(tmp_path) == {"planned": ["libcuda1", "nvtop"]}
    listed = answer(tmp_path, "bash installed", "libcuda1 installed", names=["libcuda1", "nvtop"])
    assert (listed["changed"], record_of(tmp_path)) == (False, {"packages": ["libcuda1"], "planned": ["nvtop"]})


def test_an_installation_that_fails_claims_nothing_that_is_not_there(tmp_path: Path) -> None:
    answer(tmp_path, "bash installed", names=["libcuda1"])
    answer(tmp_path, "bash installed", before=["bash"])
    assert record_of(tmp_path) is None


def test_check_mode_plans_nothing(tmp_path: Path) -> None:
    answer(tmp_path, "bash installed", names=["libcuda1"], check=True)
    assert record_of(tmp_path) is None
