"""Wrapping of the model in DistributedDataParallel, with a communication hook if one is requested."""

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from trainer.errors import TrainerError
from trainer.gradients import broadcast_parameters
from trainer.world import World


def parallel(net: nn.Module, world: World, *, sync: str, comm_hook: str) -> nn.Module:
    """The module to train: the net in DistributedDataParallel, or with sync `manual` the net itself.

    TrainerError if the backend does not support the communication hook.
    """
    if sync == "manual":
        broadcast_parameters(net)
        return net
    on_gpu = world.device.type == "cuda"
    ddp = DistributedDataParallel(net, device_ids=[world.device] if on_gpu else None, gradient_as_bucket_view=True)
    try:
        _register(ddp, comm_hook)
    except (RuntimeError, ValueError, TypeError) as error:  # for example bf16 on gloo
        raise TrainerError(f"--comm-hook {comm_hook} does not work on {world.backend}: {error}") from error
    return ddp


def _register(ddp: DistributedDataParallel, comm_hook: str) -> None:
    if comm_hook == "fp16":
        ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif comm_hook == "bf16":
        ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif comm_hook == "powersgd":
        # The first steps use a plain all_reduce, because PowerSGD approximates their gradients worst. The error
        # feedback differs per rank and is not in the checkpoint: a resume with this hook is close, not exact.
        state = PowerSGDState(process_group=torch.distributed.group.WORLD, matrix_approximation_rank=2)
        state.start_powerSGD_iter = 10
        ddp.register_comm_hook(state, powerSGD_hook)
