"""One rank of the parity test: trains several cases in one process group and saves the parameters of each.

python parity_worker.py OUTPUT_DIRECTORY
"""

import os
import sys
from pathlib import Path

import numpy as np
from torch.nn.utils import parameters_to_vector

from trainer.output_files import MetricsLog
from trainer.sampler import GlobalBatchSampler
from trainer.stop_request import StopFlag
from trainer.train_options import TrainOptions
from trainer.training_loop import train
from trainer.world import Rendezvous, World, joined

# 40 steps of 64 cross the end of an epoch, whose last batch has 29 samples: no world size divides that.
CASES = {
    "float64": TrainOptions(dtype="float64", max_steps=40, checkpoint_dir=None),
    "float64-uneven": TrainOptions(dtype="float64", batch_size=50, max_steps=40, checkpoint_dir=None),
    "float64-empty-shares": TrainOptions(dtype="float64", batch_size=2, max_steps=5, checkpoint_dir=None),
    "float64-accumulate": TrainOptions(dtype="float64", max_steps=10, accumulate=3, checkpoint_dir=None),
    "float64-at-once": TrainOptions(dtype="float64", max_steps=10, checkpoint_dir=None),
    "float32": TrainOptions(max_steps=40, checkpoint_dir=None),
    "float32-manual": TrainOptions(max_steps=40, sync="manual", checkpoint_dir=None),
}
NAIVE = TrainOptions(dtype="float64", batch_size=50, max_steps=40, checkpoint_dir=None)


def naive_count(sampler: GlobalBatchSampler, step: int) -> int:
    """Global count as if every rank had as many samples as this one; equal to averaging the ranks' mean losses."""
    size = min(sampler.batch_size, sampler.size - step * sampler.batch_size)
    return len(range(size)[sampler.rank :: sampler.num_replicas]) * sampler.num_replicas


def run_case(name: str, options: TrainOptions, world: World, output: Path) -> None:
    run, _ = train(options, world, MetricsLog(None, rank=world.rank), StopFlag())
    if world.is_first:
        np.save(output / f"{name}.npy", parameters_to_vector(run.net.parameters()).detach().numpy())


def main(output: Path) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rendezvous = Rendezvous(rank=rank, world_size=world_size, init_method="env://", backend="gloo", timeout_s=60)
    with joined(rendezvous) as world:
        for name, options in CASES.items():
            run_case(name, options, world, output)
        GlobalBatchSampler.global_count = naive_count  # type: ignore[method-assign, assignment]
        run_case("float64-naive", NAIVE, world, output)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
