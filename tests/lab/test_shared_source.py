"""The source of a run on a directory that two hosts share: sent to one of them, seen by both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab.conftest import Lab, bare_lab
from tests.lab.rank_jobs import SHARED, document, fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NUM_FILES = 2000
STORE = "/home/ops/.local/state/ddp-play/host/objects"
# Each rank waits for the file of the other one: both are in the same directory. What it closes is removed too.
SHOW = """
echo rank $RANK reads $(cat word) and $(find . -name 'f*.py' | wc -l) files
mkdir -p closed-$RANK/inner
touch closed-$RANK/inner/file
chmod -R a-w closed-$RANK
touch seen-$RANK
for i in $(seq 600); do [ -e seen-0 ] && [ -e seen-1 ] && exit 0; sleep 0.1; done
exit 1
"""


@pytest.fixture(scope="module")
def lab2(lab_home: Path) -> Iterator[Lab]:
    """Two hosts with a shared directory."""
    with bare_lab(lab_home, "source", 2) as lab:
        yield lab


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source too large to be sent whole."""
    for number in range(NUM_FILES):
        path = tmp_path / "code" / f"d{number % 20}" / f"f{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(" ".join(str(number * 7919 + i * i) for i in range(200)))
    (tmp_path / "code" / "word").write_text("first")
    (tmp_path / "code" / "show.sh").write_text(SHOW)
    return tmp_path / "code"


def launch(lab: Lab, tree: Path) -> tuple[dict[str, Any], list[str]]:
    """Run the script on both hosts; the run's document and what the ranks printed."""
    wanted = {"source": str(tree), "command": ["sh", "show.sh"], "runtime": "process", "ranks_per_host": 1}
    variables = {f"ddp_job_{name}": value for name, value in wanted.items()}
    play = {"hosts": "ranks", "gather_facts": False, "roles": [{"role": "ddp.play.ddp_job", "vars": variables}]}
    path = tree.parent / "job.yml"
    path.write_text(json.dumps([play]))
    name = fresh("shared")
    done = lab.play("run", str(path), "-i", str(lab.inventory), "--name", name)
    assert done.returncode == 0, done.stderr
    logs = [(lab.home / "runs" / name / "logs" / f"rank-{rank}.log").read_text() for rank in range(2)]
    assert json.loads((lab.home / "runs" / name / "plan.json").read_text())["source_shared"]
    return document(lab, name), logs


def test_one_host_unpacks_the_source_for_both(lab2: Lab, tree: Path) -> None:
    first, logs = launch(lab2, tree)
    assert logs == [f"rank {rank} reads first and {NUM_FILES} files\n" for rank in range(2)]
    (tree / "word").write_text("other")
    second, logs = launch(lab2, tree)
    assert logs == [f"rank {rank} reads other and {NUM_FILES} files\n" for rank in range(2)]
    assert first["source_bytes_sent"] > 500_000
    assert second["source_bytes_sent"] < 100_000
    assert lab2.on("h1", f"stat -c '%a %U' {STORE}") == "700 ops"
    assert lab2.on("h2", f"ls {STORE} 2>/dev/null; true") == "", "the other host keeps nothing"
    for host in ("h1", "h2"):
        left = f"sudo find {SHARED}/.ddp-play /home/ops/.local/state/ddp-play/host/runs -mindepth 1 2>/dev/null; true"
        assert lab2.on(host, left) == ""
