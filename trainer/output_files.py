"""Files that a rank writes for the launcher: metrics (JSON lines) and one result (JSON)."""

import json
import os
import time
from pathlib import Path
from types import TracebackType

Field = str | int | float | bool | None


class MetricsLog:
    """Metrics file of a rank, one flat JSON object per line; without a path nothing is written."""

    def __init__(self, path: Path | None, *, rank: int) -> None:
        self.rank = rank
        self.descriptor: int | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, **values: Field) -> None:
        """Append one line in a single write, so lines of several ranks do not mix; ValueError for NaN or infinity."""
        if self.descriptor is None:
            return
        line = json.dumps({"time": round(time.time(), 3), "rank": self.rank, **values}, allow_nan=False)
        os.write(self.descriptor, line.encode() + b"\n")

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def write_json(path: Path, value: object) -> None:
    """Replace a file atomically by indented JSON: a reader sees the old or the new file, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as stream:
        json.dump(value, stream, indent=2)
        stream.write("\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
