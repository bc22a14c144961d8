"""Pinned versions install on every Python that the package allows: Debian 12 has 3.11.2."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ddp_play.images.recipe import TESTED_TORCH

ROOT = Path(__file__).resolve().parents[2]
PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^;\s]+)", re.MULTILINE)


def oldest_python() -> str:
    """`3.11.0`, from pyproject.toml."""
    found = re.search(r'requires-python = ">=(\d+\.\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert found
    return f"{found[1]}.0"


def test_pins_of_installed_packages_allow_the_oldest_python() -> None:
    pins = {(found["name"].lower(), found["version"]) for found in PIN.finditer((ROOT / "constraints.txt").read_text())}
    seen, too_new = 0, []
    for package in metadata.distributions():
        name, wanted = package.metadata["Name"], package.metadata.json.get("requires_python", "")
        if (name.lower(), package.version) in pins:
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
