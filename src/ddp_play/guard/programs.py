"""Where a program is: like shutil.which, without the import of shutil, which costs every process its time."""

from __future__ import annotations

import os
from typing import Optional


def which(name: str) -> Optional[str]:
    """Path of the first program of this name on PATH; None if there is none."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
