"""State of a training: `prepare` builds it or restores it from a checkpoint, `save` writes a checkpoint."""

import hashlib
import platform
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from trainer import checkpoint
from trainer.datasets import Data, load
from trainer.errors import TrainerError
from trainer.host_groups import HostGroup, group_by_host
from trainer.model import DigitNet, build_model, parameters_sha256
from trainer.output_files import MetricsLog
from trainer.parallel import parallel
from trainer.sampler import GlobalBatchSampler
from trainer.stop_request import StopFlag
from trainer.train_options import TrainOptions
from trainer.world import World, require_agreement

PATH_OPTIONS = {"data_dir", "checkpoint_dir"}  # hosts may mount the same directory at different paths
FIXED_OPTIONS = (
    "data",
    "batch_size",
    "seed",
    "dtype",
    "dropout",
)  # options that must not change when a training is resumed


@dataclass
class Progress:
    """Progress after an optimizer step; part of every checkpoint."""

    epoch: int = 0  # completed epochs
    step_in_epoch: int = 0
    step: int = 0  # optimizer steps in total
    loss_sum: float = 0.0  # over the samples of the current epoch
    num_samples: int = 0  # of the current epoch, on all ranks
    train_loss: float | None = None  # mean over the last completed epoch

    def advance(self, steps_per_epoch: int) -> None:
        """Count one optimizer step, and the epoch if this was its last step."""
        self.step += 1
        self.step_in_epoch += 1
        if self.step_in_epoch == steps_per_epoch:
            self.train_loss = self.loss_sum / self.num_samples
            self.epoch, self.step_in_epoch = self.epoch + 1, 0
            self.loss_sum, self.num_samples = 0.0, 0

    @property
    def mean_loss(self) -> float | None:
        """Mean training loss of the current epoch, or of the last one before the first step of the next."""
        return self.loss_sum / self.num_samples if self.num_samples else self.train_loss


@dataclass
class TrainingRun:
    """Everything that the training loop reads and changes."""

    options: TrainOptions
    world: World
    data: Data
    net: DigitNet
    model: nn.Module  # the net in DistributedDataParallel, or the net itself with --sync manual
    forward: Callable[[Tensor], Tensor]  # the model, or the compiled model
    optimizer: torch.optim.Optimizer
    batches: GlobalBatchSampler
    host: HostGroup
    progress: Progress
    metrics: MetricsLog
    stop: StopFlag
    started: float = field(default_factory=time.monotonic)
    # Totals since this process started:
    num_samples: int = 0  # training samples of all ranks
    local_samples: int = 0  # training samples of this rank
    local_loss: float = 0.0  # loss summed over the local samples
    training_s: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Whether all epochs or --max-steps steps are done."""
        limit = self.options.max_steps
        return self.progress.epoch >= self.options.epochs or 0 < limit <= self.progress.step

    def print_on_rank_0(self, text: str) -> None:
        """Print a line on rank 0 only, without buffering."""
        if self.world.is_first:
            print(text, flush=True)


def prepare(options: TrainOptions, world: World, metrics: MetricsLog, stop: StopFlag) -> TrainingRun:
    """Load the data and build the model, from a checkpoint if there is one.

    TrainerError if the ranks have different options or data, or if the checkpoint belongs to another training.
    """
    started = time.monotonic()
    dtype = torch.float64 if options.dtype == "float64" else torch.float32
    torch.backends.cudnn.deterministic = True  # a resumed training must equal an uninterrupted one
    data = load(options.data, options.data_dir, dtype)
    require_same_options_and_data(options, data, world)
    net = build_model(data.side, seed=options.seed, dropout=options.dropout, dtype=dtype).to(world.device)
    # Not Adam: it divides by the magnitude of the gradient, so float32 noise in small gradients becomes full
    # steps. Largest difference between 1 and 2 ranks after 40 steps: 2e-4 with Adam, 2e-7 with SGD.
    optimizer = torch.optim.SGD(net.parameters(), lr=options.lr, momentum=0.9)
    progress = restore(options, world, net, optimizer)
    model = parallel(net, world, sync=options.sync, comm_hook=options.comm_hook)
    run = TrainingRun(
        options=options,
        world=world,
        data=data,
        net=net,
        model=model,
        forward=torch.compile(model) if options.compile else model,
        optimizer=optimizer,
        batches=GlobalBatchSampler(
            data.train,
            rank=world.rank,
            world_size=world.world_size,
            batch_size=options.batch_size,
            seed=options.seed,
        ),
        host=group_by_host(world),
        progress=progress,
        metrics=metrics,
        stop=stop,
        started=started,
    )
    if progress.step:
        run.print_on_rank_0(f"resuming after step {progress.step}, {progress.epoch} of {options.epochs} epochs done")
    return run


def require_same_options_and_data(options: TrainOptions, data: Data, world: World) -> None:
    """Raise TrainerError on every rank if options (paths excepted) or data differ between the ranks."""
    names = [item.name for item in fields(options) if item.name not in PATH_OPTIONS]
    values = {f"--{name.replace('_', '-')}": zlib.crc32(repr(getattr(options, name)).encode()) for name in names}
    require_agreement(world, {**values, "data": data.fingerprint})


def restore(options: TrainOptions, world: World, net: DigitNet, optimizer: torch.optim.Optimizer) -> Progress:
    """Load model and optimizer from the checkpoint and return its progress; a new Progress without a checkpoint."""
    found = checkpoint.load_on_all_ranks(options.resume, options.checkpoint_dir, world)
    if found is None:
        return Progress()
    before = found.meta["options"]
    changed = [name for name in FIXED_OPTIONS if before[name] != getattr(options, name)]
    if changed:
        listed = ", ".join(f"{name} was {before[name]}, now {getattr(options, name)}" for name in changed)
        raise TrainerError(f"the checkpoint belongs to another training: {listed}")
    net.load_state_dict(found.state["model"])
    optimizer.load_state_dict(found.state["optimizer"])
    return Progress(**found.meta["progress"])


def save(run: TrainingRun) -> Path | None:
    """Write a checkpoint on rank 0 and return its path; None on other ranks, whose state is the same.

    The checkpoint holds no state of random generators, because none is needed after a step: the order of samples
    depends on seed and epoch, and random numbers of the model on seed, step and rank (see seed_step). Therefore
    all ranks resume exactly from the file of rank 0.
    """
    if run.options.checkpoint_dir is None or not run.world.is_first:
        return None
    options = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(run.options).items()}
    meta = {
        "progress": asdict(run.progress),
        "options": options,
        "world_size": run.world.world_size,
        "parameters_sha256": parameters_sha256(run.net),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "host": platform.node(),
        "torch": torch.__version__,
    }
    state = {"model": run.net.state_dict(), "optimizer": run.optimizer.state_dict()}
    return checkpoint.save(
        run.options.checkpoint_dir,
        checkpoint.Checkpoint(state, meta),
        step=run.progress.step,
        keep=run.options.keep,
    )


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed torch's generator from seed, step and rank, so that a resumed step draws the same numbers (dropout)."""
    digest = hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:7], "big"))
