"""Options of a training: one dataclass, filled from the command line."""

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from trainer.errors import TrainerError


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """All options of a training. Two runs with equal options and world sizes end with equal parameters."""

    data: str = "digits"  # digits | mnist
    data_dir: Path | None = None  # directory of the MNIST IDX files
    epochs: int = 12
    max_steps: int = 0  # end after this number of optimizer steps; 0: no limit
    batch_size: int = 64  # the GLOBAL batch: samples of all ranks per optimizer step
    accumulate: int = 1  # micro-batches per optimizer step; gradients are all-reduced only in the last one
    sync: str = "ddp"  # ddp | manual: gradients are averaged by DistributedDataParallel or by explicit all_reduce calls
    comm_hook: str = "none"  # none | fp16 | bf16 | powersgd: compression of gradients by a DDP communication hook
    uneven: bool = False  # unequal inputs per rank, with the Join context manager
    lr: float = 0.05  # learning rate of SGD with momentum 0.9
    seed: int = 1
    dtype: str = "float32"  # float32 | float64
    dropout: float = 0.0  # masks differ per rank, so results depend on the world size if this is not 0
    bf16: bool = False  # forward pass in bfloat16 by autocast
    compile: bool = False  # torch.compile; needs a C++ compiler in the image
    checkpoint_dir: Path | None = Path("checkpoints")  # None: write no checkpoints
    checkpoint_every: int = 0  # steps between checkpoints; 0: at the end of each epoch
    keep: int = 2  # number of newest checkpoints to keep
    resume: str = "auto"  # auto | none | the path of one checkpoint
    log_every: int = 1  # steps between metric lines; the ranks agree on a requested stop equally often
    sleep_per_step_s: float = 0.0  # to make a test run longer

    def __post_init__(self) -> None:
        self._check_least(1, "epochs", "batch_size", "accumulate", "keep", "log_every")
        self._check_least(0, "max_steps", "checkpoint_every")
        if self.lr <= 0:
            raise TrainerError(f"--lr must be above 0, not {self.lr}")
        if not 0 <= self.dropout < 1:
            raise TrainerError(f"--dropout must be at least 0 and below 1, not {self.dropout}")
        if self.bf16 and self.dtype != "float32":
            raise TrainerError("--bf16 needs --dtype float32: autocast does not lower float64")
        self._check_sync()
        if self.checkpoint_dir is None and self.resume not in {"auto", "none"}:
            raise TrainerError("--resume PATH needs a --checkpoint-dir to write the next checkpoint to")

    def _check_sync(self) -> None:
        if self.sync == "manual" and (self.comm_hook != "none" or self.uneven):
            raise TrainerError(
                "--comm-hook and --uneven need --sync ddp: they change the collectives of DistributedDataParallel"
            )
        if self.uneven and (self.max_steps or self.checkpoint_every or self.accumulate > 1 or self.bf16):
            raise TrainerError("--uneven takes no --max-steps, --checkpoint-every, --accumulate or --bf16")

    def _check_least(self, least: int, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value < least:
                raise TrainerError(f"--{name.replace('_', '-')} must be {least} or more, not {value}")


def _directory_or_none(text: str) -> Path | None:
    return None if text in {"", "none"} else Path(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number of seconds, 0 or more, not {text}")
    return value


def add_train_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command `train`, with the names and defaults of TrainOptions."""
    default = TrainOptions()
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data", choices=("digits", "mnist"), default=default.data, help="default %(default)s, part of the trainer"
    )
    data.add_argument("--data-dir", type=Path, metavar="DIR", help="directory with the four MNIST IDX files")
    work = parser.add_argument_group("training")
    work.add_argument("--epochs", type=int, default=default.epochs, metavar="N")
    work.add_argument("--max-steps", type=int, default=default.max_steps, metavar="N", help="0: no limit")
    work.add_argument(
        "--batch-size", type=int, default=default.batch_size, metavar="N", help="samples of all ranks per step"
    )
    work.add_argument("--accumulate", type=int, default=default.accumulate, metavar="N", help="micro-batches per step")
    work.add_argument("--lr", type=float, default=default.lr, metavar="X")
    work.add_argument("--seed", type=int, default=default.seed, metavar="N")
    work.add_argument("--dtype", choices=("float32", "float64"), default=default.dtype)
    work.add_argument("--dropout", type=float, default=default.dropout, metavar="P")
    work.add_argument("--bf16", action="store_true", help="forward pass in bfloat16 by autocast")
    work.add_argument("--compile", action="store_true", help="torch.compile (needs a C++ compiler)")
    work.add_argument("--sleep-per-step", dest="sleep_per_step_s", type=_seconds, default=0.0, metavar="S")
    exchange = parser.add_argument_group("gradient exchange")
    exchange.add_argument("--sync", choices=("ddp", "manual"), default=default.sync, help="manual: explicit all_reduce")
    exchange.add_argument("--comm-hook", choices=("none", "fp16", "bf16", "powersgd"), default=default.comm_hook)
    exchange.add_argument("--uneven", action="store_true", help="unequal inputs per rank, with Join")
    files = parser.add_argument_group("checkpoints")
    files.add_argument(
        "--checkpoint-dir",
        type=_directory_or_none,
        default=default.checkpoint_dir,
        metavar="DIR",
        help="or none: write no checkpoints",
    )
    files.add_argument("--checkpoint-every", type=int, default=0, metavar="STEPS", help="0: once per epoch")
    files.add_argument("--keep", type=int, default=default.keep, metavar="N", help="newest checkpoints to keep")
    files.add_argument("--resume", default=default.resume, metavar="auto|none|PATH", help="default: %(default)s")
    files.add_argument("--log-every", type=int, default=default.log_every, metavar="STEPS")


def add_record_arguments(parser: argparse.ArgumentParser, env: Mapping[str, str] = os.environ) -> None:
    """Add the paths of metrics and result; their defaults are the launcher's DDP_PLAY_METRICS and DDP_PLAY_RESULT."""
    group = parser.add_argument_group("records")
    group.add_argument("--metrics", type=Path, default=_env_path(env, "DDP_PLAY_METRICS"), metavar="FILE")
    group.add_argument("--result", type=Path, default=_env_path(env, "DDP_PLAY_RESULT"), metavar="FILE")


def _env_path(env: Mapping[str, str], name: str) -> Path | None:
    value = env.get(name)
    return Path(value) if value else None


def train_options(args: argparse.Namespace) -> TrainOptions:
    """The options of a parsed command line; TrainerError if two of them contradict each other."""
    return TrainOptions(**{field.name: getattr(args, field.name) for field in fields(TrainOptions)})
