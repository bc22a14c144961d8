"""Reader of IDX, the format of the MNIST files: a big-endian header, then unsigned bytes."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from trainer.errors import TrainerError

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, *, num_dims: int) -> npt.NDArray[np.uint8]:
    """The writable array of an IDX file, gzipped if it ends in .gz; TrainerError says how a file is damaged."""
    content = _content(path)
    header_size = 4 + 4 * num_dims
    if len(content) < header_size:
        raise TrainerError(f"{path}: {len(content)} bytes are too few for an IDX file")
    zeros, kind, dims = struct.unpack_from(">HBB", content)
    if (zeros, kind, dims) != (0, UNSIGNED_BYTE, num_dims):
        raise TrainerError(
            f"{path}: not an IDX file of {num_dims}-dimensional bytes: it starts with {content[:4].hex()}"
        )
    shape = struct.unpack_from(f">{num_dims}I", content, 4)
    expected = header_size + math.prod(shape)
    if len(content) != expected:
        raise TrainerError(f"{path}: {len(content)} bytes, its header says {expected}: cut off or damaged")
    # a copy, because torch needs writable memory
    return np.frombuffer(content, dtype=np.uint8, offset=header_size).reshape(shape).copy()


def _content(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                return stream.read()
        return path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise TrainerError(f"{path}: cannot be read: {error}") from error
