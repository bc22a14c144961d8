"""Settings that role nccl refuses, its file and the site's, and libraries that are not of the wanted version."""

from __future__ import annotations

from typing import Any

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
    ("wanted", "version", "names"),
    [
        ([], "2.28.9-1+cuda13.0", []),
        (["libnccl2", "libnccl-dev"], "", []),
        (["libnccl2", "libnccl-dev", "libnccl-doc"], "", ["libnccl-doc"]),
        (["libnccl2", "libnccl-dev"], "2.28.9-1+cuda13.0", ["libnccl-dev"]),
        (["libnccl2", "libnccl-dev"], "2.30.1-1+cuda13.0", ["libnccl2", "libnccl-dev"]),
    ],
)
def test_libraries_that_do_not_fit(wanted: list[str], version: str, names: list[str]) -> None:
    there = {"libnccl2": "2.28.9-1+cuda13.0", "libnccl-dev": "2.27.1-1+cuda12.9", "libnccl-doc": ""}
    assert nccl.misfit({"packages": there}, wanted, version) == names


def test_lines_are_the_settings() -> None:
    assert nccl.lines("") == []
    assert nccl.lines("# of the site\n\nNCCL_IB_TC=106\nNCCL_ALGO=Ring\n") == ["NCCL_ALGO=Ring", "NCCL_IB_TC=106"]


WANTED = {"path": "/etc/nccl.conf", "content": "# Managed by ddp-play (role nccl)\n"}
ABSENT = {"type": "absent", "content": ""}
OURS = {"type": "file", "content": "# Managed by ddp-play (role nccl)\nNCCL_IB_TC=106\n"}
THEIRS = {"type": "file", "content": "NCCL_IB_TC=106\n"}
EMPTY = {"type": "file", "content": ""}
LINK = {"type": "link", "content": ""}


@pytest.mark.parametrize(
    ("there", "conf", "written"),
    [
        (ABSENT, {}, True),
        (OURS, {}, True),
        (THEIRS, {}, False),
        (EMPTY, {}, False),
        (LINK, {}, False),
        (THEIRS, {"NCCL_IB_TC": 106}, True),
        (ABSENT, {"NCCL_IB_TC": 106}, True),
    ],
)
def test_a_file_of_the_site_is_not_replaced_by_no_settings(
    *, there: dict[str, Any], conf: dict[str, Any], written: bool
) -> None:
    state = {"files": {"/etc/nccl.conf": there}}
    assert nccl.files(state, WANTED, conf) == ([WANTED] if written else [])
