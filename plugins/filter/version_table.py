"""Rows of a table of versions, newest first: what a release needs, from the release that changed it on."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence

from ansible.module_utils.compat.version import LooseVersion


def row(table: Sequence[Mapping[str, Any]], version: str, key: str) -> Mapping[str, Any]:
    """The first row whose version under `key` is not newer than `version`; empty if all rows are newer."""
    return next((line for line in table if LooseVersion(str(version)) >= LooseVersion(str(line[key]))), {})


class FilterModule:
    """The filters by the names that the roles use."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"version_table_row": row}
