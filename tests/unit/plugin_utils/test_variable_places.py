"""Places of variables, as Ansible's own loader tags them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ansible._internal._datatag._tags import Origin
from ansible.parsing.dataloader import DataLoader
from ansible_collections.ddp.play.plugins.plugin_utils.variable_places import variable_places

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "plain: x\nnumber: 4\nlist:\n  - a\nmap: {a: b}\nnull_one: null\nyes_one: true\n"


def test_file_and_line_of_what_can_have_a_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    path = tmp_path / "site" / "all.yml"
    path.write_text(TEXT)
    variables = DataLoader().load_from_file(str(path))
    monkeypatch.chdir(tmp_path)
    assert variable_places(variables, [*variables, "absent"]) == {
        "plain": "site/all.yml:1",
        "number": "site/all.yml:2",
        "list": "site/all.yml:4",
        "map": "site/all.yml:5",
        "null_one": "",
        "yes_one": "",
        "absent": "",
    }
    monkeypatch.chdir("/usr")
    assert variable_places(variables, ["plain"]) == {"plain": f"{path}:1"}


def test_the_command_line_is_described() -> None:
    """Ansible tags values of `-e` like this."""
    value = Origin(description="<CLI option '-e'>").tag("x")
    assert variable_places({"a": value}, ["a"]) == {"a": "<CLI option '-e'>"}
