"""A person stops a run while it waits for its hosts: before the start, and when files come home."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.paths import write_json
from ddp_play.errors import Interrupted
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import Make, done


def test_an_order_while_hosts_prepare_is_heard(make: Make) -> None:
    stage = make(2)

    def prepare(_header: Any, _payload: bytes) -> list[bytes]:
        write_json(stage.paths.control / "stop", {"reason": "changed my mind"})
        return []  # a long pull

    stage.far["h2"].answers["prepare"] = prepare
    with pytest.raises(Interrupted, match="stopped before it started"):
        stage.supervisor().run()
    assert "go" not in stage.far["h1"].kinds()
    assert "clean" in stage.far["h1"].kinds()


@pytest.mark.parametrize(("name", "kind"), [("stop", "done"), ("stop-now", "stopped")])
def test_an_order_while_files_come_home(make: Make, name: str, kind: str) -> None:
    """Once: they come home all the same. Now: what is missing is listed, and the hosts are clean."""
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
