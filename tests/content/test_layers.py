"""The diagram of packages in docs/architecture.md is the contract that import-linter holds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "ddp_play"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
# A row begins with the names of packages; the arrows between rows do not.
ROW = re.compile(r"^ (\w+(?: · \w+)*)", re.MULTILINE)
# What belongs to no package. A new module has a package.
AT_THE_TOP = {"__init__", "__main__", "errors", "testing"}


def drawn() -> list[set[str]]:
    """The rows of the diagram."""
    section = ARCHITECTURE.read_text(encoding="utf-8").split("## Which package may import which")[1].split("\n## ")[0]
    return [set(row.split(" · ")) for row in ROW.findall(section.split("```")[1])]


def held() -> list[set[str]]:
    """The layers of the contract, without the command's entry point."""
    layers = next(row["layers"] for row in CONTRACTS if row.get("containers") == ["ddp_play"])
    return [set(re.split(r" [|:] ", layer)) for layer in layers if layer != "__main__"]


def test_the_diagram_shows_the_contract() -> None:
    assert drawn() == held()


def test_every_package_is_in_it() -> None:
    packages = {path.parent.name for path in SOURCES.glob("*/__init__.py")}
    assert packages | {"errors"} == set().union(*held())


def test_modules_have_a_package() -> None:
    assert {path.stem for path in SOURCES.glob("*.py")} == AT_THE_TOP
