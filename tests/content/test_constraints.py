"""Pinned versions install on every Python that the package allows: Debian 12 has 3.11.2."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ddp_play.images.recipe import TESTED_TORCH

ROOT = Path(__file__).resolve().parents[2]


def oldest_python() -> str:
    """`3.11.0`, from pyproject.toml."""
    found = re.search(r'requires-python = ">=(\d+\.\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert found
    return f"{found[1]}.0"


def pins(text: str) -> set[tuple[str, str]]:
    """Name in lower case and version of each pin that applies to the oldest Python, by the pins' markers."""
    oldest = {"python_version": oldest_python().removesuffix(".0"), "python_full_version": oldest_python()}
    wanted = [Requirement(line) for line in text.splitlines() if line and not line.startswith("#")]
    return {
        (one.name.lower(), next(iter(one.specifier)).version)
        for one in wanted
        if one.marker is None or one.marker.evaluate(oldest)
    }


def test_a_pin_for_newer_pythons_is_not_one_of_the_oldest() -> None:
    """A controller with a newer Python has that version installed, and the oldest Python needs another one."""
    text = '# a comment\nAnsible==12.3.0; python_version < "3.12"\nansible==14.5.0; python_version >= "3.12"\nb==1.0\n'
    assert pins(text) == {("ansible", "12.3.0"), ("b", "1.0")}


def test_pins_of_installed_packages_allow_the_oldest_python() -> None:
    known = pins((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    seen, too_new = 0, []
    for package in metadata.distributions():
        name, wanted = package.metadata["Name"], package.metadata.json.get("requires_python", "")
        if (name.lower(), package.version) in known:
            seen += 1
            if not SpecifierSet(str(wanted)).contains(oldest_python()):
                too_new.append(f"{name} {package.version} needs Python {wanted}")
    assert too_new == []
    assert seen > 50, "the environment is not the one of constraints.txt"


def test_images_and_new_sites_have_the_torch_of_the_constraints() -> None:
    for name, text in (
        ("constraints.txt", f"\ntorch=={TESTED_TORCH}\n"),
        ("templates/site/python_env.yml.j2", f"  - torch=={TESTED_TORCH}\n"),
        ("trainer/Dockerfile", f"ARG BASE=pytorch/pytorch:{TESTED_TORCH}-cuda"),
    ):
        assert text in (ROOT / name).read_text(encoding="utf-8"), name


def test_each_pin_names_one_version() -> None:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            (specifier,) = Requirement(line).specifier
            assert specifier.operator == "=="
