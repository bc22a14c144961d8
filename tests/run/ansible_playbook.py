"""Real ansible-playbook on this machine, and the tasks that its JSON callback reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json", "ANSIBLE_DEPRECATION_WARNINGS": "0"}


def run_playbook(folder: Path, *words: str, **environment: str) -> tuple[int, list[dict[str, Any]]]:
    """Its exit code and the tasks of all plays; `folder` is its working directory."""
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", *words],
        env=os.environ | SETTINGS | environment, cwd=folder, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "{" in done.stdout, done.stdout + done.stderr
    report = json.loads(done.stdout[done.stdout.index("{") :])
    return done.returncode, [task for play in report["plays"] for task in play["tasks"]]
