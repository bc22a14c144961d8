"""Sending of the source to the hosts that unpack it: whole if it is small, else the pieces that a host lacks."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady
from ddp_play.run.source_pieces import WHOLE_BYTES, pieces_of

if TYPE_CHECKING:
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.source_pieces import Piece
    from ddp_play.run.source_snapshot import Snapshot

FRAME_BYTES = 256 * 1024
# What may wait for a slow connection.
QUEUE_BYTES = 8 << 20
# A host takes pieces at least this often, or it is not ready.
STUCK_S = 60.0
STAGE_S = 600.0
# While the archive is hashed, the hosts hear of the controller this often; a turn may take half a second.
BEAT_S = 5.0
# A host unpacks at least this fast, also into a shared directory that waits for its disk at each file.
UNPACK_BYTES_S, UNPACK_FILES_S = 5 << 20, 50
# A stored piece may turn out to be damaged, and a host may lose a piece while others arrive.
ROUNDS = 3


class SourceSender:
    """Sends one snapshot. `num_bytes`: payload sent so far, to all hosts together."""

    def __init__(self, gang: Gang, snapshot: Snapshot) -> None:
        self._gang = gang
        self._snapshot = snapshot
        self.num_bytes = 0
        self._beaten = time.monotonic()

    def send(self, links: list[Link]) -> None:
        """Bring the archive to these hosts. HostNotReady if one refuses, breaks or takes nothing for STUCK_S."""
        if len(self._snapshot.archive) <= WHOLE_BYTES or not self._snapshot.members:
            for link in links:
                self._send_whole(link)
        elif links:
            self._send_missing(links)

    def _send_whole(self, link: Link) -> None:
        archive = self._snapshot.archive
        for start in range(0, len(archive), FRAME_BYTES):
            self._send(link, "source", archive[start : start + FRAME_BYTES])
        self._gang.tell("source", links=[link])

    def _send(self, link: Link, kind: str, payload: bytes, **fields: int) -> None:
        self._gang.tell(kind, links=[link], payload=payload, **fields)
        self.num_bytes += len(payload)

    def _send_missing(self, links: list[Link]) -> None:
        pieces = pieces_of(self._snapshot, self._beat)
        packed = pieces.packed()
        self.num_bytes += len(packed) * len(links)
        announced = {"payload": packed, "headers": pieces.num_headers}
        answers = self._gang.ask("stage", "staged", links=links, deadline_s=STAGE_S, fields=lambda _: announced)
        for _ in range(ROUNDS):
            wanted = {name: _numbers(answer, len(pieces.rows)) for name, answer in answers.items()}
            asked = [link for link in links if wanted.get(link.name)]
            if not asked:
                return
            self._send_pieces(asked, wanted, pieces.rows)
            answers = self._gang.ask("assemble", "staged", links=asked, deadline_s=STAGE_S)
        if names := sorted(name for name, answer in answers.items() if answer["missing"]):
            raise HostNotReady(
                f"{', '.join(names)}: the source does not stay in the state directory",
                hint="check its disk; another program may remove files there",
            )

    def _beat(self) -> None:
        """Keep the channels alive while the archive is hashed, which may take minutes."""
        if time.monotonic() - self._beaten >= BEAT_S:
            self._gang.turn("stage")
            self._beaten = time.monotonic()

    def _send_pieces(self, links: list[Link], wanted: dict[str, set[int]], rows: tuple[Piece, ...]) -> None:
        for number in sorted(set().union(*wanted.values())):
            payload, is_packed = rows[number].frame(self._snapshot)
            for link in links:
                if number in wanted[link.name]:
                    self._send(link, "piece", payload, at=number, packed=int(is_packed))
            self._wait_for_queues(links)

    def _wait_for_queues(self, links: list[Link]) -> None:
        """Let the connections and heartbeats go on until little is left to be written."""
        before, moved = -1, time.monotonic()
        while long := [link for link in links if _queued(link) > QUEUE_BYTES]:
            left = sum(map(_queued, long))
            if left != before:
                before, moved = left, time.monotonic()
            if time.monotonic() - moved > STUCK_S:
                names = ", ".join(link.name for link in long)
                raise HostNotReady(f"{names}: took nothing of the source for {STUCK_S:.0f} s", hint="check the network")
            self._gang.turn("prepare")


def unpacking_s(snapshot: Snapshot | None) -> float:
    """Seconds that the unpacking of the source may take on a host."""
    if snapshot is None:
        return 0.0
    return len(snapshot.archive) / UNPACK_BYTES_S + len(snapshot.members) / UNPACK_FILES_S


def _queued(link: Link) -> int:
    channel = link.channel
    return 0 if channel is None or channel.broken else channel.num_queued


def _numbers(answer: dict[str, list[int | None]], num_pieces: int) -> set[int]:
    """Numbers of pieces that a host lacks; a host may say anything."""
    return {number for number in answer["missing"] if number is not None and number < num_pieces}
