"""Command line of the trainer: python -m trainer COMMAND starts one rank.

one process:           python -m trainer train
rank 0 of two ranks:   python -m trainer train --rank 0 --world-size 2 --init-method tcp://10.0.0.1:29500
under torchrun:        torchrun --nproc-per-node 2 -m trainer train
"""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import NoReturn

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

from trainer import collective_check, collective_timing, stop_request, store
from trainer.errors import TrainerError
from trainer.output_files import MetricsLog, write_json
from trainer.train_options import add_record_arguments, add_train_arguments, train_options
from trainer.training_loop import train
from trainer.world import add_world_arguments, joined, parse_rendezvous


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; each one sets `run`, a function from the parsed arguments to an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, run: Callable[[argparse.Namespace], int], doc: str | None) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name, help=text, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        add_world_arguments(command)
        add_record_arguments(command)
        command.set_defaults(run=run)
        return command

    add_train_arguments(add("train", "train a digit classifier with DistributedDataParallel", run_train, train.__doc__))
    collective_check.add_arguments(
        add(
            "collectives",
            "run every collective and check the values it returns",
            collective_check.run,
            collective_check.__doc__,
        )
    )
    collective_timing.add_arguments(
        add(
            "allreduce",
            "measure the bandwidth of collectives over message sizes",
            collective_timing.run,
            collective_timing.__doc__,
        )
    )
    add("store", "rendezvous through an explicit store", store.run, store.__doc__)
    return parser


def run_train(args: argparse.Namespace) -> int:
    """Join the process group and train; exit code 0, or 143 after a requested stop."""
    options, rendezvous = train_options(args), parse_rendezvous(args)
    with (
        joined(rendezvous, store.explicit_store(rendezvous)) as world,
        MetricsLog(args.metrics, rank=world.rank) as metrics,
        stop_request.stop_on_sigterm() as flag,
    ):
        _, result = train(options, world, metrics, flag)
        if args.result:
            write_json(args.result, asdict(result))
    return stop_request.EXIT_CODE if result.status == "stopped" else 0


@record
def run_recorded(args: argparse.Namespace) -> int:
    """Run the command; torch writes an exception to TORCHELASTIC_ERROR_FILE, which the launcher reads."""
    code: int = args.run(args)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a TrainerError is printed to stderr as one line and gives 2."""
    args = build_parser().parse_args(argv)
    try:
        return run_recorded(args) or 0
    except TrainerError as error:
        print(f"trainer: {error}", file=sys.stderr, flush=True)
        return 2


def run_and_end(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and end the process with its exit code, 1 after an exception.

    A process group that is still joined after an error is not torn down: torch may abort the process during Python's
    shutdown (SIGABRT, "terminate called without an active exception"), and the exit code of the error would be lost.
    """
    try:
        code = main(argv)
    except Exception:  # noqa: BLE001  # printed as Python itself prints it
        traceback.print_exc()
        code = 1
    if dist.is_available() and dist.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    run_and_end()
