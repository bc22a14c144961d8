"""What the tests of `ddp-play init` share: the commands that it prints, run by a shell, and an index of wheels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.lab.conftest import COMMAND, Lab
from tests.lab.file_server import serving_files
from tests.lab.rank_jobs import SHARED
from tests.schemas import check

if TYPE_CHECKING:
    from collections.abc import Iterator


def printed_commands(output: str) -> list[str]:
    """Lines to copy from what a verb printed: indented, and no comments."""
    return [line.strip() for line in output.splitlines() if line.startswith("  ") and not line.startswith("  #")]


def shell(
    script: str, lab: Lab, cwd: Path, *, timeout_s: float, with_home: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run commands in a user's shell, which finds ddp-play. `with_home`: DDP_PLAY_HOME is exported there."""
    path = f"{Path(COMMAND).parent}{os.pathsep}{os.environ['PATH']}"
    environment = lab.environment if with_home else {k: v for k, v in os.environ.items() if k != "DDP_PLAY_HOME"}
    return subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=cwd,
        env={**environment, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )


def train_as_printed(lab: Lab, directory: Path, *options: str, settings: str = "") -> None:
    """`init` for the hosts of a lab, then the commands that it prints: two hosts must have trained one model.

    `settings`: what the site adds to the settings of its Python environment.
    """
    written = lab.play("init", str(directory / "site"), "--lab", lab.name, *options)
    assert written.returncode == 0, written.stderr
    with (directory / "site/inventory/group_vars/python_env.yml").open("a") as file:
        file.write(settings)
    done = shell("\n".join(printed_commands(written.stdout)), lab, directory, timeout_s=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(lab.play("results", "--json").stdout)
    check("results", results)
    assert results["status"] == "succeeded"
    assert {rank["host"] for rank in results["ranks"]} == {"h1", "h2"}
    assert results["results"]["0"]["loss"] < 0.1
    assert [row["path"] for row in results["artifacts"]] == ["model.pt"]
    plan = json.loads(lab.play("plan", "--of", results["id"], "--json").stdout)
    assert (SHARED in json.dumps(plan)) is ("--shared-dir" in options)


@contextmanager
def wheel_index(lab: Lab, directory: Path, requirements: list[str]) -> Iterator[str]:
    """Settings of a package index that the hosts of a lab reach; it has these wheels for Python 3.11."""
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    download += ["--only-binary=:all:", "--python-version", "3.11"]
    subprocess.run([*download, "--dest", str(directory / "all"), *requirements], check=True, timeout=600)
    for wheel in (directory / "all").iterdir():
        name = wheel.name.partition("-")[0].lower().replace("_", "-").replace(".", "-")
        (directory / "simple" / name).mkdir(parents=True, exist_ok=True)
        wheel.rename(directory / "simple" / name / wheel.name)
    with serving_files(lab, directory / "simple") as (address, port):
        yield f"python_env_index_url: http://{address}:{port}/\npython_env_pip_config: {{trusted-host: {address}}}\n"
