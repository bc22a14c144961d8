"""What a host sends during a run, on its way into the bundle: logs, metrics, files and samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.run.host_files import keep_piece
from ddp_play.run.host_samples import read_frame

if TYPE_CHECKING:
    from ddp_play.bundle.sample_store import SampleStore
    from ddp_play.bundle.writer import Bundle
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.link import Link


def keep_data(link: Link, bundle: Bundle, samples: SampleStore, frame: Frame) -> None:
    """Write one frame of these kinds. Raises DiskFull, and BeyondEndError if a piece before it is missing."""
    header, payload = frame
    if header["t"] == "file":
        keep_piece(link.files, bundle, header, payload)
    elif header["t"] == "samples":
        samples.add(link.name, *read_frame(header, payload, link.ranks))
    else:
        bundle.data(str(header["t"]), int(header["rank"]), int(header["at"]), payload)
