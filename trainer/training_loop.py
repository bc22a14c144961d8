"""Training loop: `train` runs epochs, `train_epoch` steps, `train_step` one forward and backward pass."""

import time

from torch import Tensor
from torch.utils.data import DataLoader

from trainer import uneven
from trainer.evaluate import evaluate
from trainer.gradients import Batch, backward
from trainer.output_files import MetricsLog
from trainer.stop_request import StopFlag
from trainer.train_options import TrainOptions
from trainer.training_report import MetricWindow, Result, final_result, report_epoch, report_step
from trainer.training_state import TrainingRun, prepare, save, seed_step
from trainer.world import World


def train(options: TrainOptions, world: World, metrics: MetricsLog, stop: StopFlag) -> tuple[TrainingRun, Result]:
    """Train until the last step or a requested stop; the status of the result tells which. May raise TrainerError."""
    run = prepare(options, world, metrics, stop)
    loss = accuracy = None
    stopped = False
    while not run.is_complete and not stopped:
        epoch = run.progress.epoch + 1
        stopped = uneven.train_epoch(run) if options.uneven else train_epoch(run)
        if not stopped:
            loss, accuracy = evaluate(run.net, run.data.test, world)
            report_epoch(run, epoch=epoch, loss=loss, accuracy=accuracy)
    if accuracy is None and not stopped:  # the checkpoint was already that of the last step
        loss, accuracy = evaluate(run.net, run.data.test, world)
    return run, final_result(run, stopped=stopped, loss=loss, accuracy=accuracy)


def train_epoch(run: TrainingRun) -> bool:
    """Train the remaining steps of one epoch; True if a stop was requested, after its checkpoint is written."""
    progress, batches = run.progress, run.batches
    batches.set_epoch(progress.epoch)  # the iterator reads it: without this call every epoch has the same order
    batches.first_step = progress.step_in_epoch
    window = MetricWindow(run.world.device)
    for images, labels in DataLoader(run.data.train, sampler=batches, batch_size=None):
        window.add(train_step(run, images, labels), len(labels))
        stopping = is_report_due(run) and report_step(run, window)
        run.optimizer.step()
        if run.options.sleep_per_step_s:
            time.sleep(run.options.sleep_per_step_s)
        progress.advance(batches.steps_per_epoch)
        if stopping or is_checkpoint_due(run):
            save(run)
        if stopping or run.is_complete:
            return stopping
    return False


def train_step(run: TrainingRun, images: Tensor, labels: Tensor) -> Tensor:
    """Compute the gradients of one global batch from this rank's share of it; returns the loss sum of the share."""
    device = run.world.device
    seed_step(run.options.seed, run.progress.step, run.world.rank)
    run.optimizer.zero_grad()
    batch = Batch(
        images.to(device, non_blocking=True),
        labels.to(device, non_blocking=True),
        run.batches.global_count(run.progress.step_in_epoch),
    )
    return backward(run.forward, run.model, batch, run.world, accumulate=run.options.accumulate, bf16=run.options.bf16)


def is_report_due(run: TrainingRun) -> bool:
    """Whether the step in progress writes a metric line; always so before a checkpoint, which contains the sums."""
    step, step_in_epoch = run.progress.step + 1, run.progress.step_in_epoch + 1
    every = run.options.checkpoint_every
    return (
        step % run.options.log_every == 0
        or step == run.options.max_steps
        or step_in_epoch == run.batches.steps_per_epoch
        or (every > 0 and step % every == 0)
    )


def is_checkpoint_due(run: TrainingRun) -> bool:
    """Whether a checkpoint follows the last step: at the interval of --checkpoint-every, and at the end."""
    every = run.options.checkpoint_every
    regular = run.progress.step % every == 0 if every else run.progress.step_in_epoch == 0
    return regular or run.is_complete
