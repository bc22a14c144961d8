"""Event files for TensorBoard from the metrics of a run's ranks and the samples of its hosts, by tensorboardX."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from ddp_play.bundle.metric_values import Values, host_values, rank_values, ranks_with_metrics
from ddp_play.errors import UsageError
from ddp_play.guard.protocol import rank_dir_name

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ddp_play.bundle.paths import RunPaths


def write_tensorboard(paths: RunPaths, directory: Path) -> int:
    """Write a log directory for each rank with metrics and each host with samples. Returns the number of values.

    Steps of hosts are seconds since their first sample. UsageError without tensorboardX, or if `directory` has files;
    OSError of a disk that takes nothing.
    """
    try:
        # not SummaryWriter, whose thread dies with a full disk and leaves its caller waiting for ever
        from tensorboardX.event_file_writer import EventsWriter  # noqa: PLC0415 - only this export needs it
        from tensorboardX.proto.event_pb2 import Event  # noqa: PLC0415
        from tensorboardX.summary import scalar  # noqa: PLC0415
    except ImportError:
        hint = "pip install 'ddp-play[tensorboard]' in the environment of ddp-play"
        raise UsageError("event files need the package tensorboardX", hint=hint) from None
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="name a new directory: TensorBoard shows all files in it")
    directory.mkdir(parents=True, exist_ok=True)
    series: dict[str, Iterable[Values]] = {
        rank_dir_name(rank): rank_values(paths, rank) for rank in ranks_with_metrics(paths)
    }
    series |= {f"host-{host}": _in_seconds(list(host_values(paths, host))) for host in paths.sampled_hosts}
    count = 0
    for name, rows in series.items():
        (directory / name).mkdir()
        with closing(EventsWriter(str(directory / name / "events"))) as writer:
            for order, row in enumerate(rows):
                step = order if row.step is None else row.step
                for number, value in row.numbers.items():
                    writer.write_event(Event(wall_time=row.time, step=step, summary=scalar(number, value)))
                    count += 1
    return count


def _in_seconds(rows: list[Values]) -> list[Values]:
    return [row._replace(step=round(row.time - rows[0].time)) for row in rows]
