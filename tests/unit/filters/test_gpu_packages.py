"""Packages that are not held, missing or of another version."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import gpu_packages


def package(version: str = "1.19.0-1", held: bool = True) -> dict[str, Any]:
    return {"version": version, "held": held}


@pytest.mark.parametrize(
    ("packages", "loose", "misfit"),
    [
        ({"base": package(), "tools": package()}, [], []),
        ({"base": package(held=False), "tools": package()}, ["base"], []),
        ({}, [], ["tools", "base"]),
        ({"base": package(), "tools": package("1.18.2-1")}, [], ["tools"]),
        ({"base": package(), "tools": package("1.19.01-1")}, [], ["tools"]),
        ({"base": package("1.19.0-2"), "tools": package(), "other": package("9-1", False)}, ["other"], []),
    ],
)
def test_packages(packages: dict[str, Any], loose: list[str], misfit: list[str]) -> None:
    assert gpu_packages.not_held(packages) == loose
    assert gpu_packages.not_of_version(["tools", "base"], packages, "1.19.0") == misfit
