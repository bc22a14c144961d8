"""Distribution of the tests over processes of pytest-xdist: all tests of a module on one host go to one process."""

from __future__ import annotations

from typing import Any

from xdist.scheduler.loadscope import LoadScopeScheduling

from tests.roles_gpu import vendor_data


def by_host(config: Any, log: Any) -> Any:
    """A scheduling by module and host, so that each host is made once."""
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = scope
    return scheduling


def scope(nodeid: str) -> str:
    """`test_a.py::test_b[rocky-9-gpu]` as `test_a.py rocky-9`; a test without a host as its module.

    The host is the first parameter of a test.
    """
    module, _, test = nodeid.partition("::")
    parameters = test.partition("[")[2].rstrip("]")
    hosts = ("bookworm", "trixie", *vendor_data.load()["platforms"])
    return next((f"{module} {host}" for host in hosts if f"{parameters}-".startswith(f"{host}-")), module)
