"""Plans that exist already: of a run, or in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import UsageError
from ddp_play.run.existing_plan import existing_plan
from tests.unit.build import hosts, plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A run without a plan yet."""
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    paths = RunPaths.of("calm-otter-1")
    paths.create()
    write_json(paths.run, {"id": "calm-otter-1", "status": "running"})
    return paths


def test_of_a_run_by_the_beginning_of_its_id(run: RunPaths) -> None:
    made = plan(*hosts(2))
    write_json(run.plan, made.to_json())
    assert existing_plan("calm") == made


def test_of_a_file(tmp_path: Path) -> None:
    made, path = plan(*hosts(2)), tmp_path / "plan.json"
    path.write_text(json.dumps(made.to_json()))
    assert existing_plan(str(path)) == made


@pytest.mark.parametrize("text", ["", "[]", "{}", "no json"])
def test_a_file_without_a_plan_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=f"{path} has no plan") as caught:
        existing_plan(str(path))
    assert "--json" in caught.value.hint


@pytest.mark.parametrize(
    "document", [{"hosts": [], "kinds": []}, {**plan().to_json(), "kinds": []}, {**plan().to_json(), "x": 1}]
)
def test_another_document_is_refused(tmp_path: Path, document: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"{path} is not a plan of this version"):
        existing_plan(str(path))


def test_a_run_without_a_plan_is_refused(run: RunPaths) -> None:
    with pytest.raises(UsageError, match=r"plan\.json has no plan"):
        existing_plan(run.run_id)
    with pytest.raises(UsageError, match="no run other"):
        existing_plan("other")
