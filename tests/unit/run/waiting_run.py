"""A run that waits for a fake engine, for the tests of such runs."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, read_json, runs_dir, write_json
from ddp_play.engines import registry
from ddp_play.run import engine_runs
from ddp_play.testing import FakeEngine
from tests.unit.build import job


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setitem(registry.ENGINES, "fake", made)
    monkeypatch.setattr(engine_runs, "REFRESH_S", 0.0)
    monkeypatch.setattr(engine_runs, "SILENT_S", 0.0)
    return made


@pytest.fixture
def paths() -> RunPaths:
    made = RunPaths(runs_dir() / "calm-otter")
    made.create()
    write_json(made.run, {"id": "calm-otter", "status": "starting", "request": {}})
    return made


@pytest.fixture
def waiting(engine: FakeEngine, paths: RunPaths) -> RunPaths:
    engine_runs.submit(paths, job(), engine)
    return paths


def verdict(paths: RunPaths) -> dict[str, Any]:
    found: dict[str, Any] = read_json(paths.run)["verdict"]
    return found
