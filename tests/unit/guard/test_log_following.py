"""What is sent of growing files, in which order, and when a drain is answered."""

from __future__ import annotations

import select
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import followed_file, log_following, sample_following
from ddp_play.guard.log_following import Following
from ddp_play.guard.run_directory import HostRun, write_json
from ddp_play.guard.sample_file import line_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

FROM_START: dict[str, Any] = {"logs": {"0": 0}, "metrics": {"0": 0}, "nccl": {}}


class Sent:
    """Takes the place of the channel."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, bytes, dict[str, Any]]] = []

    def __call__(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        self.frames.append((kind, payload, fields))

    def take(self) -> list[str]:
        """The kinds of what was sent since the last look."""
        kinds = [kind for kind, _, _ in self.frames]
        self.frames.clear()
        return kinds


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "1.h1")
    made.logs.mkdir(parents=True)
    made.rank_dir(0).mkdir()
    return made


@pytest.fixture
def sent() -> Sent:
    return Sent()


def test_files_are_sent_from_their_offsets_and_once(place: HostRun, sent: Sent) -> None:
    place.log(0).write_bytes(b"old new")
    turns = Following(sent)
    turns.begin(place, {**FROM_START, "logs": {"0": 4}})
    assert turns.turn() is False
    assert sent.frames == [("log", b"new", {"rank": 0, "at": 4})]
    sent.take()
    assert turns.turn() is False
    assert sent.take() == []
    with place.log(0).open("ab") as log:
        log.write(b"er")
    (place.rank_dir(0) / "metrics.jsonl").write_bytes(b"{}\n")
    assert (turns.turn(), turns.turn()) == (True, False)
    assert sent.frames == [("metrics", b"{}\n", {"rank": 0, "at": 0}), ("log", b"er", {"rank": 0, "at": 7})]


def test_the_state_goes_after_the_bytes_that_it_speaks_of(
    place: HostRun, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_file, "MAX_PAYLOAD", 4)
    place.log(0).write_bytes(b"x" * 10)
    write_json(place.state, {"phase": "ended"})
    turns = Following(sent)
    turns.begin(place, FROM_START)
    turns.drain(7)
    assert (turns.turn(), turns.turn()) == (True, True)
    assert sent.take() == ["log", "log"]
    assert turns.turn() is False
    assert [frame[:2] for frame in sent.frames[:-1]] == [("log", b"xx"), ("state", b"")]
    assert sent.frames[-1][0] == "drained"
    assert sent.frames[-1][2]["id"] == 7
    sent.take()
    turns.turn()
    assert sent.take() == []
    write_json(place.state, {"phase": "gone"})
    turns.turn()
    assert sent.frames == [("state", b"", {"state": {"phase": "gone"}})]


def test_a_log_without_end_holds_a_state_back_for_a_second_at_most(
    place: HostRun, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank that prints faster than its log is sent hides neither the end of another rank nor an order."""
    monkeypatch.setattr(followed_file, "MAX_PAYLOAD", 1000)
    now = 100.0
    monkeypatch.setattr(log_following, "time", SimpleNamespace(monotonic=lambda: now))
    turns, guard = Following(sent), Reporting()
    link: Any = guard
    turns.begin(place, FROM_START, link)
    came: list[float] = []
    for step in range(45):
        with place.log(0).open("ab") as log:
            log.write(b"x" * 1200)
        guard.state = {"phase": "running", "step": step // 30}
        assert turns.turn() is True
        kinds = sent.take()
        assert kinds.count("log") == 1
        came += [now - 100.0] * kinds.count("state")
        now += 0.1
    assert came == pytest.approx([1.0, 4.0], abs=0.15)


def test_files_are_sent_in_turn(place: HostRun, sent: Sent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_file, "MAX_PAYLOAD", 1)
    for rank in (0, 1, 2):
        place.log(rank).write_bytes(b"12" if rank else b"1234")
    turns = Following(sent)
    turns.begin(place, {"logs": {"0": 0, "1": 0, "2": 0}, "metrics": {}, "nccl": {}})
    while turns.turn():
        pass
    assert [fields["rank"] for _, _, fields in sent.frames] == [0, 1, 2, 0, 1, 2, 0, 0]


def test_a_drain_waits_for_samples_behind_many_that_the_controller_has(
    place: HostRun, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that was away for hours takes over a run that has ended meanwhile."""
    monkeypatch.setattr(sample_following, "MAX_PAYLOAD", 100)
    rows: list[dict[str, Any]] = [{"cores": 4}, *({"up": 2.0 * number, "s": 2.0} for number in range(1, 100))]
    place.samples.write_bytes(b"".join(map(line_of, rows)))
    turns = Following(sent)
    turns.begin(place, {**FROM_START, "samples": {"after": 194.0}})
    turns.drain(1)
    for _ in range(1000):
        if "drained" in [kind for kind, _, _ in sent.frames]:
            break
        turns.turn()
    found = [row["up"] for kind, payload, _ in sent.frames if kind == "samples" for row in rows_of(payload)]
    assert found == [196.0, 198.0]


def test_a_pause_keeps_the_state_and_an_end_nothing(place: HostRun, sent: Sent) -> None:
    turns = Following(sent)
    turns.begin(place, FROM_START)
    turns.pause()
    place.log(0).write_bytes(b"x")
    write_json(place.state, {"phase": "running"})
    turns.turn()
    assert sent.take() == ["state"]
    turns.begin(place, FROM_START)
    turns.end()
    write_json(place.state, {"phase": "ended"})
    turns.turn()
    assert sent.take() == []


def test_nothing_followed_is_nothing_sent(sent: Sent) -> None:
    assert Following(sent).turn() is False
    assert sent.take() == []


class Guarded:
    """Takes the place of a link to a guard: connected, and without news."""

    def __init__(self, descriptors: list[int]) -> None:
        self._descriptors = descriptors

    def descriptors(self) -> list[int]:
        return self._descriptors

    def fresh(self) -> dict[str, Any] | None:
        return None

    def again(self) -> None:
        pass


class Reporting(Guarded):
    """Takes the place of a link to a guard whose state changes."""

    def __init__(self) -> None:
        super().__init__([])
        self.state: dict[str, Any] | None = None
        self._sent: dict[str, Any] | None = None

    def fresh(self) -> dict[str, Any] | None:
        if self.state == self._sent:
            return None
        self._sent = self.state
        return self.state

    def again(self) -> None:
        self._sent = None


def following(place: HostRun, sent: Sent, *, guard: Any, since_s: float = 10.0) -> Following:
    """Files of one rank, the last output of which came `since_s` ago."""
    turns = Following(sent)
    turns.begin(place, FROM_START, guard)
    turns.turn()
    turns.moved -= since_s
    return turns


def test_it_rests_while_the_kernel_tells_of_news(place: HostRun, sent: Sent) -> None:
    turns = following(place, sent, guard=Guarded([7]))
    assert turns.wait()[1] == log_following.REST_S
    place.log(0).write_bytes(b"new")
    assert select.select(turns.wait()[0], [], [], 0)[0]
    turns.woken()
    assert turns.wait() == ([], log_following.POLL_S)
    turns.turn()
    assert sent.take() == ["log"]
    turns.moved -= 10.0
    assert not select.select(turns.wait()[0], [], [], 0)[0], "the news was taken with the bytes"
    turns.end()
    assert turns.wait()[0] == []


@pytest.mark.parametrize("missing", ["guard", "directory"])
def test_it_looks_where_the_kernel_does_not_tell(place: HostRun, sent: Sent, missing: str) -> None:
    if missing == "directory":
        place.rank_dir(0).rmdir()
    turns = following(place, sent, guard=Guarded([] if missing == "guard" else [7]))
    assert turns.wait()[1] == log_following.QUIET_POLL_S


def test_while_output_comes_it_looks_often_and_asks_the_kernel_nothing(place: HostRun, sent: Sent) -> None:
    turns = following(place, sent, guard=Guarded([7]), since_s=0.0)
    assert turns.wait() == ([], log_following.POLL_S)


def test_a_channel_that_follows_nothing_rests(sent: Sent) -> None:
    turns = Following(sent)
    turns.moved -= 10.0
    assert turns.wait() == ([], log_following.REST_S)
