"""python -m trainer COMMAND: what a rank runs.

one process, by hand:  python -m trainer train
one of two ranks:      python -m trainer train --rank 0 --world-size 2 --init-method tcp://10.0.0.1:29500
under torchrun:        torchrun --nproc-per-node 2 -m trainer train
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from torch.distributed.elastic.multiprocessing.errors import record

from trainer import stop, store
from trainer.errors import TrainerError
from trainer.options import add_record_arguments, add_train_arguments, train_options
from trainer.records import MetricsLog, write_json
from trainer.train import train
from trainer.world import add_world_arguments, joined, rendezvous


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m trainer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("train", help="train a digit classifier with DistributedDataParallel")
    add_world_arguments(command)
    add_train_arguments(command)
    add_record_arguments(command)
    command.set_defaults(run=run_train)
    command = commands.add_parser(
        "store",
        help="meet in an explicit store",
        description=store.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_world_arguments(command)
    add_record_arguments(command)
    command.set_defaults(run=store.run_store)
    return parser


def run_train(args: argparse.Namespace) -> int:
    options, meeting = train_options(args), rendezvous(args)
    with (
        joined(meeting, store.explicit_store(meeting)) as world,
        MetricsLog(args.metrics, rank=world.rank) as metrics,
        stop.stop_on_sigterm() as flag,
    ):
        _, result = train(options, world, metrics, flag)
        if args.result:
            write_json(args.result, asdict(result))
    return stop.EXIT_CODE if result.status == "stopped" else 0


@record
def run_recorded(args: argparse.Namespace) -> int:
    """Run the command; an error also goes to TORCHELASTIC_ERROR_FILE, where a launcher looks."""
    code: int = args.run(args)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        return run_recorded(args) or 0
    except TrainerError as error:
        print(f"trainer: {error}", file=sys.stderr, flush=True)
        return 2


if __name__ == "__main__":
    sys.exit(main())
