"""Hash of an image's content, for comparisons: image ids depend on the engine's image store."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# An image's id differs between the classic and the containerd store; its layers and run configuration do not.
_CONFIG_KEYS = ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")


def fingerprint(inspected: Mapping[str, Any]) -> str:
    """12 hex digits over layers and run configuration of one `docker image inspect` entry."""
    config = inspected.get("Config") or {}
    content = {
        "layers": (inspected.get("RootFS") or {}).get("Layers") or [],
        "config": {key: config.get(key) or None for key in _CONFIG_KEYS},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
