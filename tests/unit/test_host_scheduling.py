"""Which tests of hosts share a process."""

from __future__ import annotations

import pytest

from tests.roles_gpu.scheduling import scope


@pytest.mark.parametrize(
    ("nodeid", "expected"),
    [
        ("a/test_b.py::test_c[rocky-9-gpu]", "a/test_b.py rocky-9"),
        ("a/test_b.py::test_c[ubuntu-24.04]", "a/test_b.py ubuntu-24.04"),
        ("a/test_b.py::test_c[bookworm-main-a: text]", "a/test_b.py bookworm"),
        ("a/test_b.py::test_c[gpu-rocky-9]", "a/test_b.py"),
        ("a/test_b.py::test_c", "a/test_b.py"),
    ],
)
def test_all_tests_of_a_module_on_one_host_share_a_process(nodeid: str, expected: str) -> None:
    assert scope(nodeid) == expected
