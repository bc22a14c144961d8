"""One rank whose command raises in a joined process group, and that tells whether Python's shutdown ran.

During that shutdown torch may abort a process whose group is joined, which replaces the exit code.

python refusing_worker.py refuse|fail
"""

import atexit
import sys
from typing import Any

import torch
import torch.distributed as dist

from trainer import __main__ as command_line
from trainer.errors import TrainerError


def end_in_a_collective(*_: Any) -> Any:
    """What takes the place of the training loop."""
    how = sys.argv[1]
    dist.all_reduce(torch.ones(1))
    raise TrainerError("refused") if how != "fail" else ValueError("failed")


if __name__ == "__main__":
    atexit.register(print, "Python's shutdown ran", flush=True)
    vars(command_line)["train"] = end_in_a_collective
    command_line.run_and_end(["train", "--backend", "gloo", "--timeout", "60"])
