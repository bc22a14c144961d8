"""Jobs over the hosts of a lab, with torch on the directory that all hosts share."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.conftest import Lab

SLIM = "ddp-play-rank:slim"
SHARED = "/srv/ddp-play-shared"
PYTHON = f"{SHARED}/python"
ROOT = Path(__file__).resolve().parents[2]


def job(tmp_path: Path, variables: dict[str, Any], name: str = "job.yml") -> str:
    """A playbook with one job over the slim image and the shared torch."""
    wanted = {"image": SLIM, "env": {"PYTHONPATH": PYTHON, "OMP_NUM_THREADS": "1"}, **variables}
    play = {
        "hosts": "ranks",
        "gather_facts": False,
        "roles": [{"role": "ddp.play.ddp_job", "vars": {f"ddp_job_{k}": v for k, v in wanted.items()}}],
    }
    path = tmp_path / name
    path.write_text(json.dumps([play]))
    return str(path)


def train(tmp_path: Path, **variables: Any) -> str:
    """The reference trainer, a few epochs of it."""
    wanted = {
        "source": str(ROOT),
        "source_include": ["trainer"],
        "command": ["python3", "-m", "trainer", "train", "--epochs", "3", "--init-method", "{init_method}"],
        **variables,
    }
    return job(tmp_path, wanted)


def fresh(name: str) -> str:
    """A run name that a kept lab has not seen yet."""
    return f"{name}-{secrets.token_hex(3)}"


def document(lab: Lab, run: str) -> dict[str, Any]:
    """A run's run.json."""
    value: dict[str, Any] = json.loads((lab.home / "runs" / run / "run.json").read_text())
    return value
