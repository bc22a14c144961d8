"""Variables of --extra-vars, as pairs, JSON, YAML and files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.provisioning.extra_vars import extra_variables


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a=1 b='x y'", {"a": "1", "b": "x y"}),
        ('{"a": [1]}', {"a": [1]}),
        ("@vars.yml", {"a": True}),
        ("@nowhere.yml", {}),
        ("'unclosed", {}),
        ("[1]", {}),
    ],
)
def test_variables_of_the_command_line(tmp_path: Path, value: str, found: dict[str, object]) -> None:
    (tmp_path / "vars.yml").write_text("a: true\n")
    assert extra_variables(("--limit", "a=1", "--extra-vars", value), str(tmp_path)) == found
