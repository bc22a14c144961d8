"""The shared directory and the rendezvous that may use it: what a plan refuses, and the URLs it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import DdpPlayError, HostNotReady, UsageError
from tests.unit.build import env, host, hosts, plan, shared, user

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts


@pytest.mark.parametrize(
    ("facts", "values", "error", "words"),
    [
        (
            hosts(2, shared=shared(problem="does not exist")),
            {},
            HostNotReady,
            "h1, h2: shared directory /shared: does not",
        ),
        (
            (host(shared=shared()), host("h2", "10.0.0.2/24", shared=shared(problem="Read-only file system"))),
            {},
            HostNotReady,
            "h2: shared directory /shared: Read-only file system",
        ),
        ((host(shared=shared()), host("h2", "10.0.0.2/24")), {}, UsageError, "set for some hosts and not for h2"),
        (hosts(2), {"init_method": "file"}, UsageError, "init_method is file and no shared directory is known"),
    ],
)
def test_shared_directory_refusals(
    facts: tuple[HostFacts, ...], values: dict[str, Any], error: type[DdpPlayError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        plan(*facts, **values)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "uid", "problem", "words"),
    [
        (
            "root",
            0,
            "Permission denied",
            "root_squash maps root to nobody: run as the directory's owner, without become",
        ),
        ("root", 0, "Read-only file system", "findmnt -T /shared on h1"),
        ("ops", 1000, "Permission denied", "let ops (uid 1000) create files in /shared"),
        ("ops", 1000, "does not exist", "mount it: ddp-play provision -i INVENTORY --limit h1 --tags nfs_client"),
    ],
)
def test_the_hint_is_about_the_reason_why_a_shared_directory_cannot_be_used(
    name: str, uid: int, problem: str, words: str
) -> None:
    with pytest.raises(HostNotReady) as caught:
        plan(host(user=user(name, uid), shared=shared(problem=problem)))
    assert words in caught.value.hint
    assert "unset ddp_shared_dir" in caught.value.hint


@pytest.mark.parametrize(
    ("facts", "method", "url"),
    [
        (hosts(2), "env", "env://"),
        (hosts(2), "tcp", "tcp://10.0.0.2:<head_port>"),
        ((host(machine="m"), host("b", machine="m")), "tcp", "tcp://127.0.0.1:<head_port>"),
        (hosts(2, shared=shared()), "file", "file:///shared/.ddp-play/<run_key>/rendezvous-<attempt>"),
        ((host(machine="m"), host("b", machine="m")), "file", "file:///tmp/ddp-play-rendezvous-<run_key>-<attempt>"),
    ],
)
def test_init_methods(facts: tuple[HostFacts, ...], method: str, url: str) -> None:
    made = plan(*facts, init_method=method, command=["t", "--init-method", "{init_method}"])
    assert made.init_url == url
    assert made.hosts[0].rank(0).argv == ("t", "--init-method", url)
    assert env(made)["DDP_PLAY_INIT_METHOD"] == url
