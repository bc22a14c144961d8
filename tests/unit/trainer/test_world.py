"""Arguments and environment -> rendezvous, backend and device, or one clear line."""

from argparse import ArgumentParser

import pytest
import torch

from trainer.errors import TrainerError
from trainer.world import (
    Rendezvous,
    add_world_arguments,
    choose_backend,
    choose_device,
    group_options,
    parse_rendezvous,
)

TWO = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"}


def parse(*arguments: str, env: dict[str, str] | None = None) -> Rendezvous:
    parser = ArgumentParser()
    add_world_arguments(parser, env or {})
    return parse_rendezvous(parser.parse_args(arguments), env or {})


@pytest.mark.parametrize(
    ("arguments", "env", "expected"),
    [
        ((), {}, (0, 1, True)),
        ((), TWO, (1, 2, False)),
        (("--rank", "0"), TWO, (0, 2, False)),  # an argument wins over the environment
        (("--rank", "2", "--world-size", "3", "--init-method", "tcp://h:1"), {}, (2, 3, False)),
        (("--rank", "0", "--world-size", "1", "--init-method", "file:///x/y"), {}, (0, 1, False)),
        ((), {"RANK": "0", "WORLD_SIZE": "1"}, (0, 1, True)),
    ],
)
def test_rendezvous(arguments: tuple[str, ...], env: dict[str, str], expected: tuple[int, int, bool]) -> None:
    rendezvous = parse(*arguments, env=env)
    assert (rendezvous.rank, rendezvous.world_size, rendezvous.single_process) == expected


@pytest.mark.parametrize(
    ("arguments", "env", "message"),
    [
        (("--rank", "0"), {}, "--world-size (or WORLD_SIZE) is missing"),
        (("--world-size", "2"), {}, "--rank (or RANK) is missing"),
        (("--rank", "2", "--world-size", "2"), {}, "rank 2 does not exist in a world of 2: ranks are 0 to 1"),
        (("--rank", "-1", "--world-size", "2"), {}, "rank -1 does not exist"),
        (("--init-method", "http://h"), {}, "'http://h' is none of env://, tcp://, file://, store"),
        (("--timeout", "0"), {}, "--timeout must be above 0"),
        ((), {**TWO, "MASTER_PORT": ""}, "needs MASTER_PORT in the environment"),
    ],
)
def test_rendezvous_refuses(arguments: tuple[str, ...], env: dict[str, str], message: str) -> None:
    with pytest.raises(TrainerError) as caught:
        parse(*arguments, env=env)
    assert message in str(caught.value)


def test_backend_and_device_follow_the_hardware() -> None:
    assert choose_backend("auto", cuda=True) == "nccl"
    assert choose_backend("auto", cuda=False) == "gloo"
    assert choose_backend("cpu:gloo,cuda:nccl", cuda=True) == "cpu:gloo,cuda:nccl"
    with pytest.raises(TrainerError, match="needs a CUDA device"):
        choose_backend("nccl", cuda=False)
    assert choose_device("gloo", rank=3, local_rank=1, num_gpus=2) == torch.device("cpu")
    assert choose_device("nccl", rank=3, local_rank=1, num_gpus=2) == torch.device("cuda", 1)
    assert choose_device("cpu:gloo,cuda:nccl", rank=3, local_rank=None, num_gpus=2) == torch.device("cuda", 1)
    assert choose_device("gloo", rank=1, local_rank=1, num_gpus=2, device="cuda") == torch.device("cuda", 1)
    with pytest.raises(TrainerError, match="cannot work on --device cpu"):
        choose_device("nccl", rank=0, local_rank=0, num_gpus=1, device="cpu")
    with pytest.raises(TrainerError, match="local rank 0 has no GPU of its own: this host shows 0"):
        choose_device("gloo", rank=0, local_rank=None, num_gpus=0, device="cuda")
    with pytest.raises(TrainerError, match="local rank 2 has no GPU of its own: this host shows 2"):
        choose_device("nccl", rank=2, local_rank=2, num_gpus=2)


def test_the_timeout_is_the_launchers_unless_given() -> None:
    assert parse(env={**TWO, "DDP_PLAY_TIMEOUT": "90"}).timeout_s == 90
    assert parse("--timeout", "5", env={**TWO, "DDP_PLAY_TIMEOUT": "90"}).timeout_s == 5
    assert parse(env=TWO).timeout_s == 300


def test_options_of_a_group_are_for_nccl() -> None:
    assert parse("--high-priority", env=TWO).high_priority
    assert group_options("gloo", high_priority=False) is None
    with pytest.raises(TrainerError, match="--high-priority needs --backend nccl: gloo has no CUDA streams"):
        group_options("gloo", high_priority=True)
