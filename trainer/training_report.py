"""Output of a training: metric lines, one printed line per epoch, and the result."""

import math
import platform
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.errors import TrainerError
from trainer.host_groups import sum_over_host
from trainer.model import parameters_sha256
from trainer.training_state import TrainingRun
from trainer.world import require_agreement, sum_over_ranks


@dataclass(frozen=True)
class Result:
    """Result of a training on one rank, the content of its result file."""

    status: str  # finished | stopped
    rank: int
    world_size: int
    accuracy: float | None  # on the test set; None after a requested stop
    loss: float | None  # on the test set; None after a requested stop
    train_loss: float | None
    epochs: int
    steps: int
    seconds: float
    samples_per_s: float  # of all ranks, during training steps
    parameters_sha256: str
    data: str
    seed: int
    batch_size: int
    dtype: str
    backend: str
    device: str
    host: str
    torch: str


class MetricWindow:
    """Sums on this rank since the last metric line; the loss stays on the device, so no step waits for its value."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.reset()

    def reset(self) -> None:
        """Start a new window now."""
        self.started = time.monotonic()
        self.loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        self.num_samples = 0

    def add(self, loss_sum: Tensor, num_samples: int) -> None:
        """Add one step: a scalar loss sum, and the number of its samples."""
        self.loss_sum += loss_sum
        self.num_samples += num_samples


def report_step(run: TrainingRun, window: MetricWindow) -> bool:
    """Sum the window over all ranks and write a metric line; True if a stop was requested on any rank.

    All ranks must stop after the same step, but SIGTERM reaches them at different times: a rank that stops alone
    makes the others fail in the middle of a step. This function is called before the optimizer step. If the loss
    is not finite on any rank, all ranks raise TrainerError before the parameters change.
    """
    local_loss = float(window.loss_sum)
    totals = sum_over_ranks(run.world, [local_loss, window.num_samples, float(run.stop.requested)])
    loss_sum, num_samples, num_stops = totals[0], int(totals[1]), totals[2]
    seconds = time.monotonic() - window.started
    progress = run.progress
    step, loss = progress.step + 1, loss_sum / num_samples
    if not math.isfinite(loss):
        raise TrainerError(f"the loss is {loss} at step {step}: training has diverged, try a smaller --lr")
    progress.loss_sum += loss_sum
    progress.num_samples += num_samples
    add_to_totals(run, local_loss, window.num_samples, num_samples, seconds)
    run.metrics.write(step=step, epoch=progress.epoch + 1, loss=loss, samples_per_s=round(num_samples / seconds, 1))
    window.reset()
    return num_stops > 0


def add_to_totals(run: TrainingRun, local_loss: float, local_samples: int, num_samples: int, seconds: float) -> None:
    """Add one window to the totals since this process started; `num_samples` is the count of all ranks."""
    run.local_loss += local_loss
    run.local_samples += local_samples
    run.num_samples += num_samples
    run.training_s += seconds


def report_epoch(run: TrainingRun, *, epoch: int, loss: float, accuracy: float) -> None:
    """Print a line and write a metric line; `epoch` counts from 1, `loss` is the test loss."""
    rate, train_loss = throughput(run), run.progress.mean_loss
    report_host(run, epoch)
    where = f"epoch {epoch}/{run.options.epochs}"
    run.print_on_rank_0(f"{where} loss {train_loss:.4f} accuracy {accuracy:.4f} {rate:.0f} samples/s")
    run.metrics.write(
        step=run.progress.step,
        epoch=epoch,
        loss=train_loss,
        test_loss=loss,
        accuracy=accuracy,
        samples_per_s=round(rate, 1),
    )


def report_host(run: TrainingRun, epoch: int) -> None:
    """Write loss and throughput of this host's ranks on the first of them, to recognize a slow or deviating host."""
    sums = sum_over_host(run.host, run.world, [run.local_loss, run.local_samples, run.training_s])
    if sums is None:
        return
    loss, samples, seconds = sums
    num_ranks = len(run.host.ranks)
    run.metrics.write(
        step=run.progress.step,
        epoch=epoch,
        host=run.host.name,
        host_ranks=num_ranks,
        host_loss=loss / samples if samples else None,
        host_samples_per_s=round(samples * num_ranks / seconds, 1) if seconds else None,
    )


def throughput(run: TrainingRun) -> float:
    """Samples per second of all ranks since this process started to train; 0 before the first window."""
    return run.num_samples / run.training_s if run.training_s else 0.0


def final_result(run: TrainingRun, *, stopped: bool, loss: float | None, accuracy: float | None) -> Result:
    """Check that the parameters are equal on all ranks (else TrainerError), print the last line, build the result."""
    progress, options, world = run.progress, run.options, run.world
    sha256 = parameters_sha256(run.net)
    require_agreement(world, {"parameters": int(sha256[:15], 16)})
    seconds = time.monotonic() - run.started
    if stopped:
        run.print_on_rank_0(f"stopped as requested after step {progress.step}")
    else:
        run.print_on_rank_0(
            f"test accuracy {accuracy:.4f} loss {loss:.4f} after {progress.step} steps in {seconds:.1f} s"
        )
    return Result(
        status="stopped" if stopped else "finished",
        rank=world.rank,
        world_size=world.world_size,
        accuracy=accuracy,
        loss=loss,
        train_loss=progress.mean_loss,
        epochs=progress.epoch,
        steps=progress.step,
        seconds=round(seconds, 3),
        samples_per_s=round(throughput(run), 1),
        parameters_sha256=sha256,
        data=options.data,
        seed=options.seed,
        batch_size=options.batch_size,
        dtype=options.dtype,
        backend=world.backend,
        device=str(world.device),
        host=platform.node(),
        torch=torch.__version__,
    )
