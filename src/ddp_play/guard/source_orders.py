"""Orders that bring the source of a run to this host: its archive whole, or the pieces of it that are missing here."""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING, Any, Callable, Optional

from .refusal import Refused
from .source_staging import Staging

if TYPE_CHECKING:
    from .protocol import Header
    from .run_directory import HostRun


class SourceOrders:
    """The source as it arrives. `send`: of the channel; `place`: the attempt's directory, which it then attends."""

    def __init__(self, send: Callable[..., Any], place: Callable[[], HostRun]) -> None:
        self.send = send
        self.place = place
        self.archive: Optional[IO[bytes]] = None
        self.staging: Optional[Staging] = None
        self.problem: Optional[OSError] = None

    def on_source(self, _header: Header, payload: bytes) -> None:
        """Append to the archive; an empty payload ends it."""
        place = self.place()
        if self.archive is None:
            self.archive = open(str(place.source_archive), "wb")  # noqa: SIM115 - open over several frames
        if payload:
            self.archive.write(payload)
        else:
            self.archive.close()
            self.archive = None

    def on_stage(self, header: Header, payload: bytes) -> None:
        """Take the list of all pieces; answer which are missing. If none is, the archive is there."""
        self.problem = None
        place = self.place()
        with contextlib.suppress(FileNotFoundError):
            place.source_pieces.unlink()
        self.staging = Staging(place, payload, int(header["headers"]))
        self._answer(self.staging)

    def on_piece(self, header: Header, payload: bytes) -> None:
        """Keep a piece. A problem with the disk is answered at the end: more pieces are on their way."""
        try:
            self._the_staging().receive(int(header["at"]), payload, packed=bool(header.get("packed")))
        except OSError as error:
            self.problem = self.problem or error

    def on_assemble(self, _header: Header, _payload: bytes) -> None:
        """Answer which pieces are missing after all those that were sent."""
        if self.problem is not None:
            raise self.problem
        self._answer(self._the_staging())

    def _answer(self, staging: Staging) -> None:
        self.send("staged", missing=staging.missing() or staging.assemble())

    def _the_staging(self) -> Staging:
        if self.staging is None:
            raise Refused("no source was announced on this channel", kind="internal")
        return self.staging
