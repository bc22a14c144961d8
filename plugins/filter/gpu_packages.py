"""Installed packages as ddp.play.gpu_facts and ddp.play.rdma_facts list them: by name, with version and held."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

Packages = Mapping[str, Mapping[str, Any]]


def not_held(packages: Packages) -> List[str]:
    """Packages that an upgrade of the host would change."""
    return [name for name, found in packages.items() if not found["held"]]


def not_of_version(wanted: Sequence[str], packages: Packages, version: str) -> List[str]:
    """Wanted packages that are missing or of another version, whatever their revision after the hyphen."""
    return [name for name in wanted if not packages.get(name, {}).get("version", "").startswith(f"{version}-")]


class FilterModule:
    """The filters by the names that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"gpu_packages_not_held": not_held, "gpu_packages_not_of_version": not_of_version}
