"""Event files for TensorBoard from the metrics of a run's ranks and the samples of its hosts, by tensorboardX."""

from __future__ import annotations

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

    Steps of hosts are seconds since their first sample. UsageError without tensorboardX, or if `directory` has files.
    """
    try:
        from tensorboardX import SummaryWriter  # noqa: PLC0415 - only this export needs it
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
        with SummaryWriter(logdir=str(directory / name)) as writer:
            for order, row in enumerate(rows):
                step = order if row.step is None else row.step
                for number, value in row.numbers.items():
                    writer.add_scalar(number, value, global_step=step, walltime=row.time)
                    count += 1
    return count


def _in_seconds(rows: list[Values]) -> list[Values]:
    return [row._replace(step=round(row.time - rows[0].time)) for row in rows]
