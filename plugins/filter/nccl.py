"""Problems in the settings of role nccl, and the installed libraries of the wanted version."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

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


def fitting(packages: Mapping[str, Mapping[str, Any]], version: str) -> List[str]:
    """Installed libraries of this version; of any version if it is empty. packages: of ddp.play.gpu_facts."""
    return [name for name, found in packages.items() if version in ("", found["version"])]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nccl_problems": problems, "nccl_fitting": fitting}
