"""Names of --limit that Ansible has left out are refused with the names of the real inventory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.limit_refusal import lines_below, refuse_left_out_names
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

LEFT_OUT = "[WARNING]: Could not match supplied host pattern, ignoring: gpu1"


def refuse(tmp_path: Path, said: str, *options: str) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.write_text("[gpu]\ngpu[01:03]\n[ranks:children]\ngpu\n[later]\n")
    refuse_left_out_names(said, (str(inventory),), options, cwd=str(tmp_path), environment=os.environ)


@pytest.mark.parametrize("said", [LEFT_OUT, "[ERROR]: ... --limit leaves us with no hosts to target."])
def test_a_name_that_was_left_out_is_refused(tmp_path: Path, said: str) -> None:
    with pytest.raises(UsageError) as found:
        refuse(tmp_path, said, "--become", "--limit", "gpu01:gpu1")
    assert found.value.message == "--limit: 'gpu1' is no host and no group of the inventory"
    assert "gpu01" in found.value.hint


@pytest.mark.parametrize(
    ("said", "options"),
    [
        (LEFT_OUT, ()),
        ("[WARNING]: something else", ("--limit", "gpu1")),
        (LEFT_OUT, ("--limit", "ranks:later")),
    ],
)
def test_nothing_else_is_refused(tmp_path: Path, said: str, options: tuple[str, ...]) -> None:
    refuse(tmp_path, said, *options)


def test_an_inventory_that_cannot_be_read_is_for_who_reads_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text("ranks: [")
    refuse_left_out_names(LEFT_OUT, (str(broken),), ("--limit", "x"), cwd=str(tmp_path), environment=os.environ)


def test_lines_of_a_file_below_a_directory(tmp_path: Path) -> None:
    (tmp_path / "limit.txt").write_text("gpu01\ngpu02\n")
    assert lines_below(str(tmp_path))("limit.txt") == ["gpu01", "gpu02"]
    assert lines_below(str(tmp_path))("none") == []
