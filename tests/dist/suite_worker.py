"""One rank of the suite test: several quick checks that need a process group, in one process.

python suite_worker.py OUTPUT_DIRECTORY
"""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from torch.nn.utils import parameters_to_vector

from trainer.collective_calls import CaseContext, all_reduce, expect
from trainer.collective_cases import Case
from trainer.collective_check import Outcome, control_group, run_case
from trainer.collective_timing import measure
from trainer.host_groups import group_by_host, sum_over_host
from trainer.output_files import MetricsLog
from trainer.plain_tcp import measure_links
from trainer.stop_request import StopFlag
from trainer.timed_collectives import TIMED_COLLECTIVES
from trainer.train_options import TrainOptions
from trainer.training_loop import train
from trainer.world import Rendezvous, World, joined


def nobody_sends(context: CaseContext) -> None:
    if context.rank == 0:
        dist.recv(context.mine, 1, group=context.group)


def wrong_sum(context: CaseContext) -> None:
    tensor = context.mine
    dist.all_reduce(tensor, group=context.group)
    expect("sum", tensor, context.total + 1)


def unequal_sizes(context: CaseContext) -> None:
    dist.all_gather(context.rows(), context.full(1, length=10 + context.rank), group=context.group)


def outcomes(world: World) -> dict[str, str]:
    cases = [
        Case("hangs", nobody_sends, "send/recv"),
        Case("after the hang", all_reduce, "all_reduce"),
        Case("wrong", wrong_sum, "all_reduce"),
        Case("refused", unequal_sizes, "all_gather"),
        Case("after the refusal", all_reduce, "all_reduce"),
    ]
    limit_s = 3.0
    control = control_group(world, limit_s)
    found: list[Outcome] = [run_case(case, world, control, limit_s) for case in cases]
    return {outcome.name: outcome.status for outcome in found}


def deviation_of_hooks(world: World) -> dict[str, float]:
    """Largest difference of a parameter from plain DDP after 20 steps."""
    found = {}
    plain = None
    for hook in ("none", "fp16", "powersgd"):
        options = TrainOptions(max_steps=20, comm_hook=hook, checkpoint_dir=None)
        run, _ = train(options, world, MetricsLog(None, rank=world.rank), StopFlag())
        vector = parameters_to_vector(run.net.parameters()).detach()
        plain = vector if plain is None else plain
        found[hook] = float((vector - plain).abs().max())
    return found


def uneven(world: World) -> list[float | None]:
    """Train losses after one and after three epochs; train() itself checks that all ranks end equal."""
    losses = []
    for epochs in (1, 3):
        options = TrainOptions(epochs=epochs, uneven=True, checkpoint_dir=None)
        losses.append(train(options, world, MetricsLog(None, rank=world.rank), StopFlag())[1].train_loss)
    return losses


def hosts(world: World) -> tuple[list[int], list[float] | None]:
    """Host groups as if ranks 0 and 1 shared a host and rank 2 had its own."""
    host = group_by_host(world, name=f"host{world.rank // 2}")
    return list(host.ranks), sum_over_host(host, world, [1.0, world.rank])


def wrong_in_bench(world: World) -> dict[str, int]:
    return {name: measure(operation, world, 4096, 0.01).wrong for name, operation in TIMED_COLLECTIVES.items()}


def wires(world: World) -> list[dict[str, Any]]:
    """Links as if ranks 0 and 1 shared a host and rank 2 had its own, over loopback."""
    with patch("trainer.plain_tcp.platform.node", lambda: f"host{world.rank // 2}"):
        return [asdict(wire) for wire in measure_links(world, 0.2)]


def main(output: Path) -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rendezvous = Rendezvous(rank=rank, world_size=world_size, init_method="env://", backend="gloo", timeout_s=60)
    with joined(rendezvous) as world:
        found = {
            "outcomes": outcomes(world),
            "hooks": deviation_of_hooks(world),
            "uneven": uneven(world),
            "hosts": hosts(world),
            "bench": wrong_in_bench(world),
            "wires": wires(world),
            "one host": measure_links(world, 0.2),
        }
    (output / f"found-{rank}.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
