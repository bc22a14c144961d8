"""What `ansible-doc` shows of a plugin or module can be read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NAMES = ("DOCUMENTATION", "RETURN")


def texts() -> list[tuple[str, str]]:
    """Place and text of each block of documentation in YAML."""
    found = []
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                name = getattr(node.targets[0], "id", "")
                if name in NAMES:
                    found.append((f"{path.relative_to(ROOT)}:{name}", str(node.value.value)))
    return found


@pytest.mark.parametrize(("place", "text"), texts(), ids=lambda value: value[:60])
def test_the_documentation_of_a_plugin_is_yaml(place: str, text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict), place


def test_there_is_documentation() -> None:
    assert len(texts()) > 20
