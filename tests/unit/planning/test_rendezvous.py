"""Rendezvous: method x store x launcher x backend, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.rendezvous import FILE_STORE_SCRIPT, TCP_STORE_SCRIPT, choose_rendezvous, needs_shared_file
from tests.unit.build import engine, env, host, hosts, ib_host, job, plan, shared

TCP = "tcp://10.0.0.2:<head_port>"
FILE = "file:///shared/.ddp-play/<run_key>/rendezvous-<attempt>"


@pytest.mark.parametrize("launcher", ["ranks", "torchrun"])
@pytest.mark.parametrize(
    ("values", "init_url", "store_url"),
    [
        ({}, "env://", ""),
        ({"init_method": "tcp"}, TCP, ""),
        ({"init_method": "file"}, FILE, ""),
        ({"init_method": "store", "store": "file"}, "store", FILE),
    ],
)
def test_every_method(launcher: str, values: dict[str, Any], init_url: str, store_url: str) -> None:
    made = plan(*hosts(2, shared=shared()), launcher=launcher, **values)
    assert (made.init_url, made.store_url) == (init_url, store_url)
    assert env(made)["DDP_PLAY_INIT_METHOD"] == init_url
    assert env(made).get("DDP_PLAY_STORE", "") == store_url


def test_a_store_of_rank_0_is_told_in_the_environment_and_in_the_plan() -> None:
    made = plan(*hosts(2), init_method="store")
    assert (made.init_url, made.store_url) == ("store", TCP)
    assert env(made, 1)["DDP_PLAY_STORE"] == TCP
    assert made.script == TCP_STORE_SCRIPT
    assert plan(init_method="store", store="file").script == FILE_STORE_SCRIPT
    assert plan().script == ()


def test_an_ipv6_head_is_bracketed_in_urls_and_bare_in_the_environment() -> None:
    facts = tuple(host(f"h{n}", f"2001:db8::{n}/64") for n in (1, 2))
    for method, url in (("tcp", "init_url"), ("store", "store_url")):
        made = plan(*facts, init_method=method)
        assert getattr(made, url) == "tcp://[2001:db8::1]:<head_port>"
        assert env(made)["MASTER_ADDR"] == "2001:db8::1"


def test_mpi_assigns_ranks_itself_and_the_plan_says_so() -> None:
    for method in ("env", "tcp", "store"):
        made = plan(*hosts(2), backend="mpi", init_method=method)
        assert made.init_url == "env://"
        assert made.init_reason == f"MPI assigns ranks itself: {method} is not used"
        assert made.script[-1].startswith("dist.init_process_group(mpi_backend.NAME")
    assert {rank: (env(made, rank)["PMI_ID"], env(made, rank)["PMI_PORT"]) for rank in (0, 1)} == {
        0: ("0", "10.0.0.2:<head_port>"),
        1: ("1", "10.0.0.2:<head_port>"),
    }
    assert "PMI_PORT" not in env(plan(*hosts(2)))


def test_mpi_takes_the_fabrics_interface_and_no_short_cut_between_containers() -> None:
    got = env(plan(*hosts(2), backend="mpi"))
    assert (got["UCX_NET_DEVICES"], got["FI_TCP_IFACE"]) == ("eth0", "eth0")
    assert "UCX_TLS" not in got
    got = env(plan(*(ib_host(f"g{n}", n, engine=engine()) for n in (1, 2)), backend="mpi", image="i"))
    assert got["UCX_NET_DEVICES"] == "mlx5_0:1,ib0"
    assert (got["MPIR_CVAR_CH4_CMA_ENABLE"], got["UCX_TLS"]) == ("0", "^sm")


@pytest.mark.parametrize(
    ("values", "address", "words"),
    [
        ({"backend": "mpi", "launcher": "torchrun"}, "10.0.0.1", "both would assign the ranks"),
        ({"backend": "mpi"}, "2001:db8::1", "over IPv4 only"),
        ({"init_method": "store", "launcher": "torchrun"}, "10.0.0.1", "torchrun hosts its own store"),
    ],
)
def test_what_does_not_go_together(values: dict[str, Any], address: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        choose_rendezvous(job(**values), backend=values.get("backend", "gloo"), head_addr=address, shared_dir="")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({}, False),
        ({"init_method": "file"}, True),
        ({"init_method": "store"}, False),
        ({"init_method": "store", "store": "file"}, True),
        ({"store": "file"}, False),
        ({"init_method": "file", "backend": "mpi"}, False),
    ],
)
def test_who_needs_a_shared_directory(values: dict[str, Any], needed: bool) -> None:
    assert needs_shared_file(job(**values)) == needed
    if needed:
        with pytest.raises(UsageError, match="is file and no shared directory is known"):
            plan(*hosts(2), **values)
