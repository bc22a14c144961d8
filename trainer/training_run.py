"""One training run in memory: built or restored by `prepare`, written to disk by `save`."""

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
from trainer.parallel import parallel
from trainer.records import MetricsLog
from trainer.sampler import GlobalBatchSampler
from trainer.stop_request import StopFlag
from trainer.train_options import TrainOptions
from trainer.world import World, require_agreement

PATH_OPTIONS = {"data_dir", "checkpoint_dir"}  # hosts may mount the same thing in different places
FIXED_OPTIONS = ("data", "batch_size", "seed", "dtype", "dropout")  # what must not change within one training


@dataclass
class Progress:
    """Where training stands, always just after an optimizer step; part of every checkpoint."""

    epoch: int = 0  # completed epochs
    step_in_epoch: int = 0
    step: int = 0  # optimizer steps in all
    loss_sum: float = 0.0  # over the samples of the epoch at hand
    num_samples: int = 0
    train_loss: float | None = None  # mean over the last completed epoch

    def advance(self, steps_per_epoch: int) -> None:
        """Count one optimizer step, and the epoch with its last one."""
        self.step += 1
        self.step_in_epoch += 1
        if self.step_in_epoch == steps_per_epoch:
            self.train_loss = self.loss_sum / self.num_samples
            self.epoch, self.step_in_epoch = self.epoch + 1, 0
            self.loss_sum, self.num_samples = 0.0, 0

    @property
    def mean_loss(self) -> float | None:
        """Of the epoch at hand, or of the last one where none has begun."""
        return self.loss_sum / self.num_samples if self.num_samples else self.train_loss


@dataclass
class TrainingRun:
    """Everything the loop works on."""

    options: TrainOptions
    world: World
    data: Data
    net: DigitNet
    model: nn.Module  # net in DistributedDataParallel, or net itself with --sync manual
    forward: Callable[[Tensor], Tensor]  # model, or model compiled
    optimizer: torch.optim.Optimizer
    batches: GlobalBatchSampler
    host: HostGroup
    progress: Progress
    metrics: MetricsLog
    stop: StopFlag
    started: float = field(default_factory=time.monotonic)
    # Since this process started:
    num_samples: int = 0  # trained on by all ranks
    local_samples: int = 0  # trained on by this one
    local_loss: float = 0.0  # summed over these
    training_s: float = 0.0

    @property
    def is_complete(self) -> bool:
        limit = self.options.max_steps
        return self.progress.epoch >= self.options.epochs or 0 < limit <= self.progress.step

    def print_on_rank_0(self, text: str) -> None:
        """Print on rank 0 only; flushed, because the launcher shows lines as they come."""
        if self.world.is_first:
            print(text, flush=True)


def prepare(options: TrainOptions, world: World, metrics: MetricsLog, stop: StopFlag) -> TrainingRun:
    """Load the data, build the model, restore both from a checkpoint where there is one."""
    started = time.monotonic()
    dtype = torch.float64 if options.dtype == "float64" else torch.float32
    torch.backends.cudnn.deterministic = True  # a resumed run must repeat the undisturbed one
    data = load(options.data, options.data_dir, dtype)
    require_same_options_and_data(options, data, world)
    net = build_model(data.side, seed=options.seed, dropout=options.dropout, dtype=dtype).to(world.device)
    # Not Adam: it divides by the gradient's size, so float32 noise in tiny gradients becomes whole steps
    # (measured after 40 steps: 2e-4 between 1 and 2 ranks, against 2e-7).
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
    """Refuse ranks with different options or data before they disturb each other."""
    names = [item.name for item in fields(options) if item.name not in PATH_OPTIONS]
    values = {f"--{name.replace('_', '-')}": zlib.crc32(repr(getattr(options, name)).encode()) for name in names}
    require_agreement(world, {**values, "data": data.fingerprint})


def restore(options: TrainOptions, world: World, net: DigitNet, optimizer: torch.optim.Optimizer) -> Progress:
    """Put model and optimizer back to where the checkpoint left them; without one, Progress is zero."""
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
    """Write a checkpoint, on rank 0; the other ranks hold the same state and go on.

    No random state is saved because none outlives a step: the order of samples follows from seed and epoch,
    and what the model draws from seed, step and rank (see seed_step). So a resume is exact for every
    rank from rank 0's file.
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
    """Make what a step draws (dropout) a function of seed, step and rank, so that a resume repeats it."""
    digest = hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:7], "big"))
