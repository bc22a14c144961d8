"""Run directories for tests of the verbs, as a run over two ranks on two hosts leaves them."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, home, write_json
from tests.unit.build import hosts, plan

if TYPE_CHECKING:
    from collections.abc import Iterator


def make_run(name: str = "calm-otter-1", *, logs: tuple[bytes, ...] = (), **document: Any) -> RunPaths:
    """Write run.json, plan.json and the logs of ranks 0, 1, ...; `document` adds fields to run.json."""
    paths = RunPaths(home() / "runs" / name)
    paths.create()
    fields = {
        "id": name,
        "created": 1.0,
        "started": 2.0,
        "ended": 3.0,
        "status": "succeeded",
        "exit_code": 0,
        "world_size": 2,
    }
    write_json(paths.run, {**fields, "hosts": ["h1", "h2"], **document})
    write_json(paths.plan, plan(*hosts(2)).to_json())
    for rank, content in enumerate(logs):
        paths.log(rank).write_bytes(content)
    return paths


def write_result(paths: RunPaths, result: dict[str, Any], *, rank: int = 0) -> None:
    """Write the result of a rank."""
    write_json(paths.result(rank), result)


@contextmanager
def supervised(paths: RunPaths) -> Iterator[None]:
    """The run has a supervisor, which holds its lock."""
    with paths.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
