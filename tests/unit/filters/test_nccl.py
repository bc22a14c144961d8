"""Settings that role nccl refuses, and libraries of the wanted version."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.filter import nccl

REFUSED = {"NCCL_DEBUG": "debugging does not belong in a permanent file; set it for a job"}
BY_PREFIX = 'NCCL_IB_HCA matches by prefix: write "=mlx5_0" to name it exactly.'
DEBUG = "NCCL_DEBUG: debugging does not belong in a permanent file; set it for a job."


@pytest.mark.parametrize(
    ("conf", "allowed", "problems"),
    [
        ({}, [], []),
        ({"NCCL_IB_TC": 106, "NCCL_IB_HCA": "=mlx5_0", "NCCL_SOCKET_IFNAME": "^lo"}, [], []),
        ({"UCX_TLS": "rc"}, ["UCX_TLS"], ["UCX_TLS is not an NCCL variable."]),
        ({"nccl_debug": "INFO"}, [], ["nccl_debug is not an NCCL variable."]),
        ({"NCCL_DEBUG": "INFO"}, [], [DEBUG]),
        ({"NCCL_DEBUG": "INFO"}, ["NCCL_DEBUG"], []),
        ({"NCCL_IB_HCA": "mlx5_0"}, [], [BY_PREFIX]),
        ({"NCCL_IB_HCA": "mlx5_0"}, ["NCCL_IB_HCA"], []),
        (
            {"NCCL_IB_HCA": "mlx5_0", "NCCL_DEBUG": "INFO", "UCX_TLS": "rc"},
            [],
            ["UCX_TLS is not an NCCL variable.", DEBUG, BY_PREFIX],
        ),
    ],
)
def test_problems(conf: dict[str, object], allowed: list[str], problems: list[str]) -> None:
    assert nccl.problems(conf, REFUSED, allowed) == problems


@pytest.mark.parametrize(
    ("version", "names"),
    [("", ["libnccl2", "libnccl-dev"]), ("2.28.9-1+cuda13.0", ["libnccl2"]), ("2.30.1-1+cuda13.0", [])],
)
def test_fitting_libraries(version: str, names: list[str]) -> None:
    there = {"libnccl2": {"version": "2.28.9-1+cuda13.0"}, "libnccl-dev": {"version": "2.27.1-1+cuda12.9"}}
    assert nccl.fitting(there, version) == names
    assert nccl.fitting({}, version) == []
