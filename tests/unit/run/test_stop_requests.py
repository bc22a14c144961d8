"""Stop requests: files and signals, and where a run reacts to them before the start and while files are collected."""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import Interrupted
from ddp_play.guard.protocol import encode
from ddp_play.run.stop_requests import StopRequest, StopRequests
from tests.unit.run.conftest import Make, done

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    made = RunPaths(tmp_path / "calm-otter-1")
    made.create()
    return made


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"stop": {"reason": "enough"}}, StopRequest("enough", now=False)),
        ({"stop": {"reason": ""}}, StopRequest("stopped on request", now=False)),
        ({"stop-now": {}}, StopRequest("stopped on request", now=True)),
        ({"stop": {"reason": "enough"}, "stop-now": {}}, StopRequest("enough", now=True)),
        ({"stop": {"reason": "preempted", "requeue": "yes"}}, StopRequest("preempted", now=False, requeue=True)),
        ({"stop": {"reason": "preempted", "requeue": "yes"}, "stop-now": {}}, StopRequest("preempted", now=True)),
    ],
)
def test_a_request_in_files(paths: RunPaths, files: dict[str, dict[str, str]], expected: StopRequest | None) -> None:
    for name, content in files.items():
        write_json(paths.control / name, content)
    assert StopRequests(paths).stop() == expected


@pytest.mark.parametrize(("requeue", "stays"), [({"requeue": "yes"}, False), ({}, True)])
def test_a_requeue_that_was_carried_out_is_forgotten(paths: RunPaths, requeue: dict[str, str], stays: bool) -> None:
    write_json(paths.stop_request(now=False), {"reason": "enough", **requeue})
    StopRequests(paths).forget_requeue()
    assert paths.stop_request(now=False).exists() is stays


@pytest.mark.parametrize(("order", "ends"), [(None, False), ({"requeue": "yes"}, False), ({"reason": "enough"}, True)])
def test_an_order_of_the_engine_ends_no_run(paths: RunPaths, order: dict[str, str] | None, ends: bool) -> None:
    if order is not None:
        write_json(paths.stop_request(now=False), order)
    assert StopRequests(paths).ends_the_run() is ends


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_requests_a_stop_and_a_second_one_a_stop_now(paths: RunPaths, signum: signal.Signals) -> None:
    before = signal.getsignal(signum)
    requests = StopRequests(paths)
    with requests.handle_signals():
        assert requests.stop() is None
        os.kill(os.getpid(), signum)
        assert requests.stop() == StopRequest("stopped on request", now=False)
        os.kill(os.getpid(), signum)
        assert requests.stop() == StopRequest("stopped on request", now=True)
    assert signal.getsignal(signum) is before


def test_many_hosts_find_enough_descriptors_while_a_run_is_supervised(paths: RunPaths) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        with StopRequests(paths).handle_signals():
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(256, hard), hard)
        with pytest.raises(ValueError, match="inside"), StopRequests(paths).handle_signals():
            raise ValueError("inside")
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(256, hard), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_request_while_hosts_prepare_ends_the_run(make: Make) -> None:
    stage = make(2)

    def prepare(_header: Any, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.control / "stop", {"reason": "changed my mind"})
        return []  # a long image pull

    stage.far["h2"].answers["prepare"] = prepare
    with pytest.raises(Interrupted, match="stopped before it started"):
        stage.supervisor().run()
    assert "go" not in stage.far["h1"].kinds()
    assert "clean" in stage.far["h1"].kinds()


@pytest.mark.parametrize(("name", "kind"), [("stop", "done"), ("stop-now", "stopped")])
def test_a_request_while_files_are_collected(make: Make, name: str, kind: str) -> None:
    """After `stop` all files are collected. After `stop --now` the missing ones are listed, and the hosts are clean."""
    stage = make(2)
    for host in ("h1", "h2"):
        done(stage, host)

    def fetch(_header: Any, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.control / name, {"reason": "no patience"})
        return [] if name == "stop-now" else [encode("fetched", missing=[], artifacts=[])]

    stage.far["h2"].answers["fetch"] = fetch
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == kind
    assert ("h2" in [row["host"] for row in outcome.missing]) is (name == "stop-now")
    assert "clean" in stage.far["h2"].kinds()


def test_ranks_that_were_stopped_now_are_collected_all_the_same(make: Make) -> None:
    stage = make(1, network="")
    stage.ends_on_stop("h1")

    def started(_header: Any, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.control / "stop-now", {"reason": "no patience"})
        return [encode("going")]

    stage.far["h1"].answers["go"] = started
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.missing) == ("stopped", ())
    assert "fetch" in stage.far["h1"].kinds()
