"""Orders about containers of a check: places, one program, and directories that the check alone has made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import container_program, leases
from ddp_play.guard.container_orders import ContainerOrders

if TYPE_CHECKING:
    from ddp_play.guard.run_directory import HostRun

KEY = {"key": "check.0123456789abcdef", "host": "h1"}


class Orders(ContainerOrders):
    """Orders that keep what they answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []
        super().__init__(lambda kind, payload=b"", **_: self.sent.append((kind, json.loads(payload))))


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Specs of the containers that were run; each uses its directories as a run does."""
    specs: list[dict[str, Any]] = []

    def run(place: HostRun, spec: dict[str, Any], limits: tuple[float, float], given_up: object) -> dict[str, Any]:
        assert (place.run_key, limits) == (KEY["key"], (5.0, 20.0))
        assert callable(given_up), "the controller may be gone meanwhile"
        for row in spec["make_dirs"]:
            Path(row["path"]).mkdir(parents=True, exist_ok=True)
        specs.append(spec)
        return {"program": {"value": {"parts": []}}}

    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(container_program, "run", run)
    return specs


def order(shared: Path, **more: Any) -> dict[str, Any]:
    unit = {"rank": 0, "create": ["create", "image", "sh", "-c", "exec", "rank"]}
    spec = {"ranks": [unit], "agent": None, "make_dirs": [{"path": str(shared / ".ddp-play"), "mode": 0o1777}]}
    return {**KEY, "spec": spec, "words": ["python3", "-c", ""], "limit_s": 5.0, "start_s": 20.0, **more}


def test_a_place_is_told_and_not_made(tmp_path: Path, ran: list[dict[str, Any]]) -> None:
    orders = Orders()
    orders.on_container_place(KEY)
    (kind, found) = orders.sent[0]
    assert (kind, found["uid"]) == ("container_place", os.geteuid())
    assert found["directory"].startswith(str(tmp_path / "state"))
    assert not Path(found["directory"]).exists()
    assert ran == []


def test_the_words_come_after_those_of_the_rank(tmp_path: Path, ran: list[dict[str, Any]]) -> None:
    orders = Orders()
    orders.on_container_run(order(tmp_path))
    assert ran[0]["ranks"][0]["create"] == ["create", "image", "sh", "-c", "exec", "rank", "python3", "-c", ""]
    assert orders.sent == [("container_run", {"program": {"value": {"parts": []}}})]
    agent = {"rank": 0, "create": ["create", "torchrun"]}
    orders.on_container_run(order(tmp_path, spec={**order(tmp_path)["spec"], "agent": agent}))
    assert ran[1]["agent"]["create"][-3:] == ["python3", "-c", ""]


@pytest.mark.parametrize("ends", ["order", "connection"])
def test_a_directory_of_all_runs_that_was_not_there_is_removed(
    tmp_path: Path, ran: list[dict[str, Any]], ends: str
) -> None:
    orders = Orders()
    orders.on_container_run(order(tmp_path))
    orders.on_container_run(order(tmp_path))
    assert (tmp_path / ".ddp-play").is_dir()
    assert len(ran) == 2
    if ends == "order":
        orders.on_container_end({})
    else:
        orders.hang_up()
    assert not (tmp_path / ".ddp-play").exists()
    orders.hang_up()


@pytest.mark.parametrize("mine", [True, False])
def test_one_that_others_use_stays(tmp_path: Path, ran: list[dict[str, Any]], *, mine: bool) -> None:
    shared = tmp_path / ".ddp-play"
    if not mine:
        shared.mkdir()
    orders = Orders()
    orders.on_container_run(order(tmp_path))
    assert len(ran) == 1
    if mine:
        (shared / "night.0123456789abcdef").mkdir()  # a run that has begun meanwhile
    orders.on_container_end({})
    assert shared.is_dir()


def test_what_is_left_of_any_container_is_told_at_the_end(
    tmp_path: Path, ran: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = Orders()
    lefts: list[dict[str, Any]] = [{"value": ["a"]}, {"value": ["a", "b"]}, {"problem": "no answer within 50 s"}]
    monkeypatch.setattr(container_program, "run", lambda *_: {"program": {}, "left": lefts.pop(0)})
    for _ in range(3):
        orders.on_container_run(order(tmp_path))
    orders.on_container_end({})
    assert orders.sent[-1] == ("container_end", {"left": ["a", "b", "no answer within 50 s"]})
    quiet = Orders()
    quiet.on_container_end({})
    assert quiet.sent == [("container_end", {"left": []})]
    assert ran == []


def test_a_port_belongs_to_no_run_meanwhile(tmp_path: Path, ran: list[dict[str, Any]]) -> None:
    orders = Orders()
    with leases.hold("port-29517") or pytest.fail("somebody has the lease"):
        orders.on_container_run(order(tmp_path, port=29517))
    value = {"parts": [], "problem": "a run has port 29517", "busy": True}
    assert orders.sent == [("container_run", {"program": {"value": value}})], "an answer, so the host is asked again"
    assert ran == []
    orders.on_container_run(order(tmp_path, port=29517))
    again = leases.hold("port-29517")
    assert again is not None
    again.close()
