"""Sending of the source: a small one whole, of a large one the pieces that each host lacks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.guard.protocol import Header, encode
from ddp_play.run.source_pieces import pieces_of
from ddp_play.run.source_sending import ROUNDS
from ddp_play.run.source_snapshot import Snapshot, take_snapshot
from ddp_play.testing import FakeChannel, refusal
from tests.unit.build import job
from tests.unit.run.conftest import done

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.run.conftest import Make, Stage


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    root = tmp_path / "code"
    root.mkdir()
    (root / "weights").write_bytes(os.urandom(9 << 20))
    for number in range(100):
        (root / f"file{number}").write_text(f"{number}\n" * 300)
    return take_snapshot(job(source=str(root)))


@pytest.fixture
def stage(make: Make) -> Stage:
    made = make(2, source="/code")
    for name in ("h1", "h2"):
        done(made, name)
    return made


def lacks(*rounds: list[int]) -> Callable[[Header, bytes], list[bytes]]:
    """Answer of a host that lacks these pieces, each time it is asked; then none."""
    left = list(rounds)
    return lambda _header, _payload: [encode("staged", missing=left.pop(0) if left else [])]


def sent(stage: Stage, host: str) -> list[int]:
    return [int(header["at"]) for header, _ in stage.far[host].orders if header["t"] == "piece"]


def test_each_host_gets_what_it_lacks(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers["stage"] = lacks([0, 2])
    stage.supervisor(snapshot=snapshot).run()
    assert (sent(stage, "h1"), sent(stage, "h2")) == ([0, 2], [])
    assert [kind for kind in stage.far["h2"].kinds() if kind in ("stage", "assemble", "source", "prepare")] == [
        "stage",
        "prepare",
    ]
    rows = pieces_of(snapshot)
    pieces = sum(len(rows.rows[number].frame(snapshot)[0]) for number in (0, 2))
    assert stage.document["source_bytes_sent"] == pieces + 2 * len(rows.packed())


def test_what_was_sent_before_the_port_was_found_taken_counts(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers["stage"] = lacks([0, 2])
    taken = [refusal("prepare", "the port is taken", error="busy")]
    ready = [encode("prepared", guard_pid=1)]
    stage.far["h1"].answers["prepare"] = lambda _header, _payload: taken.pop() if taken else ready
    stage.supervisor(snapshot=snapshot).run()
    assert stage.far["h1"].kinds().count("prepare") == 2
    rows = pieces_of(snapshot)
    pieces = sum(len(rows.rows[number].frame(snapshot)[0]) for number in (0, 2))
    assert stage.document["source_bytes_sent"] == pieces + 4 * len(rows.packed())


def test_a_damaged_piece_is_sent_in_another_round(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers.update(stage=lacks([1]), assemble=lacks([2]))
    stage.supervisor(snapshot=snapshot).run()
    assert sent(stage, "h1") == [1, 2]


def test_a_host_that_always_lacks_something_is_not_ready(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers.update(stage=lacks([1]), assemble=lacks(*[[1]] * 10))
    with pytest.raises(HostNotReady, match="h1: the source does not stay"):
        stage.supervisor(snapshot=snapshot).run()
    assert sent(stage, "h1") == [1] * ROUNDS


def test_a_host_may_name_pieces_that_do_not_exist(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers["stage"] = lacks([1, 10**6])
    stage.supervisor(snapshot=snapshot).run()
    assert sent(stage, "h1") == [1]


def test_a_full_disk_is_told(stage: Stage, snapshot: Snapshot) -> None:
    stage.far["h1"].answers.update(stage=lacks([1]), assemble=refusal("assemble", "No space left on device"))
    with pytest.raises(HostNotReady, match="h1: No space left on device"):
        stage.supervisor(snapshot=snapshot).run()


def test_heartbeats_go_on_while_a_connection_is_slow(
    stage: Stage, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.far["h1"].answers["stage"] = lacks([0])
    left = [32 << 20, 24 << 20, 16 << 20, 0]
    monkeypatch.setattr(FakeChannel, "num_queued", property(lambda _: left.pop(0) if left else 0))
    turns: list[Any] = []
    monkeypatch.setattr("ddp_play.run.host_links.Gang.turn", lambda _gang, kind: turns.append(kind))
    stage.supervisor(snapshot=snapshot).run()
    assert turns
    assert set(turns) == {"prepare"}


def test_a_connection_that_takes_nothing(stage: Stage, snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.far["h1"].answers["stage"] = lacks([0])
    monkeypatch.setattr(FakeChannel, "num_queued", property(lambda _: 32 << 20))
    monkeypatch.setattr("ddp_play.run.source_sending.STUCK_S", 0.1)
    with pytest.raises(HostNotReady, match="h1: took nothing of the source"):
        stage.supervisor(snapshot=snapshot).run()
