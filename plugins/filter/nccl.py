"""Problems in the settings of role nccl, its file and lines of it, libraries that are not of the wanted version."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.module_utils.file_changes import OWN_MARK

VARIABLE = re.compile(r"NCCL_[A-Z0-9_]+$")
# Without a leading = these match by prefix: eth1 also takes eth10. A leading ^ excludes names.
MATCHED_BY_PREFIX = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA")


def problems(conf: Mapping[str, Any], refused: Mapping[str, str], allowed: Sequence[str]) -> List[str]:
    """Sentences on settings that the role refuses. refused: the reason by name; allowed: names the site permits."""
    judged = [name for name in conf if name not in allowed]
    return [
        *(f"{name} is not an NCCL variable." for name in conf if not VARIABLE.match(name)),
        *(f"{name}: {refused[name]}." for name in judged if name in refused),
        *(
            f'{name} matches by prefix: write "={conf[name]}" to name it exactly.'
            for name in judged
            if name in MATCHED_BY_PREFIX and not str(conf[name]).startswith(("=", "^"))
        ),
    ]


def misfit(state: Mapping[str, Any], wanted: Sequence[str], version: str) -> List[str]:
    """Wanted libraries that are missing or not of this version; with an empty version, those that are missing."""
    there = {name: state["packages"].get(name, "") for name in wanted}
    return [name for name, found in there.items() if not found or version not in ("", found)]


def files(state: Mapping[str, Any], wanted: Mapping[str, Any], conf: Mapping[str, Any]) -> List[Mapping[str, Any]]:
    """The role's file, as a list; empty if it would replace a file of the site (without the mark) by no settings."""
    there = state["files"][wanted["path"]]
    is_theirs = there["type"] != "absent" and OWN_MARK not in there["content"]
    return [wanted] if conf or not is_theirs else []


def lines(text: str) -> List[str]:
    """Settings in a file in the format of nccl.conf, sorted; comments and empty lines are left out."""
    return sorted(line for line in text.splitlines() if line and not line.startswith("#"))


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nccl_problems": problems, "nccl_misfit": misfit, "nccl_files": files, "nccl_lines": lines}
