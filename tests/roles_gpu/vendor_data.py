"""Published names, versions and relations of packages, read from vendor_packages.yml."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PATH = Path(__file__).with_name("vendor_packages.yml")
RELATIONS = ("requires", "provides", "conflicts", "obsoletes")


@dataclass(frozen=True)
class Published:
    """One version of a package; `version` as [epoch:]version-release."""

    name: str
    version: str
    relations: dict[str, list[str]] = field(default_factory=dict)


@functools.cache
def load() -> dict[str, Any]:
    return dict(yaml.safe_load(PATH.read_text(encoding="utf-8")))


def rows(name: str) -> list[dict[str, Any]]:
    """Packages of a set, each with `name`, `versions` and `source`; a set of plain packages maps names to versions."""
    data = load()
    found = data["sets"].get(name)
    if found is not None:
        return list(found)
    plain = data["plain_sets"][name]
    return [
        {"name": key, "versions": [version], "source": plain["source"]} for key, version in plain["versions"].items()
    ]


def published(*sets: str) -> list[Published]:
    """Every version of every package in these sets."""
    found = []
    for row in (row for name in sets for row in rows(name)):
        for version in row["versions"]:
            relations = {
                key: [text.replace("=VERSION", f"= {version}") for text in row[key]] for key in RELATIONS if key in row
            }
            found.append(Published(row["name"], version, relations))
    return found


def names(platform: str) -> set[str]:
    """All package names that any repository of a platform has."""
    data = load()
    repositories = data["platforms"][platform]["repositories"]
    return {package.name for name in repositories for package in published(*data["repositories"][name]["sets"])}


def addresses() -> set[str]:
    """Every address of a repository."""
    data = load()
    return {row["url"] for row in data["addresses"]} | {row["url"] for row in data["repositories"].values()}


def fingerprints() -> dict[str, str]:
    """Fingerprint or id of every key, by its address."""
    return {row["url"]: row["fingerprint"] for row in load()["keys"]}
