"""A rank's environment: every value with its source, the job's own above ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.host_facts import Interface, RdmaPort
from ddp_play.planning.rank_environment import EnvVar
from tests.unit.build import engine, env, gpus, host, hosts, ib_host, plan, rdma

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan


def var(made: Plan, name: str, rank: int = 0) -> EnvVar:
    return next(item for item in made.host_of(rank).rank(rank).env if item.name == name)


def test_torchs_own_names() -> None:
    got = env(plan(*hosts(2, slots=2)), 3)
    expected = {
        "RANK": "3",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_WORLD_SIZE": "2",
        "GROUP_RANK": "1",
        "MASTER_ADDR": "10.0.0.2",
        "MASTER_PORT": "<head_port>",
    }
    assert {name: got[name] for name in expected} == expected


def test_names_are_sorted_and_unique() -> None:
    names = [item.name for item in plan(env={"RANK": "7", "A": "1"}).hosts[0].rank(0).env]
    assert names == sorted(set(names))


def test_every_value_has_a_source() -> None:
    made = plan(*hosts(2), env={"A": "1", "B": None}, caller_env={"B": "2"}, secret_names=("S",))
    assert all(item.source for row in made.hosts for item in row.rank_template.env)


@pytest.mark.parametrize(
    ("values", "name", "value", "source"),
    [
        ({"env": {"LR": "0.1"}}, "LR", "0.1", "job: ddp_job_env"),
        ({"env": {"WORLD_SIZE": "9"}}, "WORLD_SIZE", "9", "job: ddp_job_env, instead of 1"),
        ({"env": {"USER": None}}, "USER", "caller", "caller's environment, instead of ops"),
        ({"env": {"ONLY_CALLER": None}}, "ONLY_CALLER", "{{ x }}\n", "caller's environment"),
        ({"env": {"MASTER_PORT": "1"}}, "MASTER_PORT", "1", "job: ddp_job_env"),
        ({"cpus": 3}, "OMP_NUM_THREADS", "3", "job: ddp_job_cpus"),
        ({}, "OMP_NUM_THREADS", "8", "plan: CPUs of the host / its ranks"),
    ],
)
def test_sources(values: dict[str, Any], name: str, value: str, source: str) -> None:
    made = plan(caller_env={"USER": "caller", "ONLY_CALLER": "{{ x }}\n"}, **values)
    assert var(made, name) == EnvVar(name, value, source)


def test_nothing_of_the_caller_leaks_unasked() -> None:
    assert "SECRET_OF_MINE" not in env(plan(caller_env={"SECRET_OF_MINE": "x"}))


def test_a_bare_key_that_the_caller_does_not_have() -> None:
    with pytest.raises(UsageError, match="bare key TOKEN, and the caller's environment has no TOKEN") as caught:
        plan(env={"TOKEN": None})
    assert "export TOKEN" in caught.value.hint


def test_values_of_the_job_are_never_bound() -> None:
    """A user's text that looks like one of our tokens stays: `late` is for what the plan itself wrote."""
    assert var(plan(env={"A": "<run_id>"}), "A").late is False
    assert var(plan(), "DDP_PLAY_RUN_ID").late is True


@pytest.mark.parametrize("slots", [1, 3, 8, 64])
def test_threads_are_shared_fairly_and_never_zero(slots: int) -> None:
    assert env(plan(host(slots=slots)))["OMP_NUM_THREADS"] == str(max(1, 8 // slots))


def test_gloo_is_always_told_its_interface() -> None:
    for made in (plan(), plan(*hosts(2)), plan(ib_host("g1", 1), ib_host("g2", 2))):
        for row in made.hosts:
            assert env(made, row.ranks[0])["GLOO_SOCKET_IFNAME"] == row.interface


def test_nccl_gets_an_exact_interface_and_gloo_none_of_its_variables() -> None:
    made = plan(ib_host("g1", 1, num_gpus=1), ib_host("g2", 2, num_gpus=1))
    assert env(made)["NCCL_SOCKET_IFNAME"] == "=ib0"
    assert not [name for name in env(plan(*hosts(2))) if name.startswith("NCCL")]


@pytest.mark.parametrize(
    ("addresses", "family"),
    [
        (("10.0.0.{}/24",), "AF_INET"),
        (("2001:db8::{}/64",), "AF_INET6"),
        (("2001:db8::{}/64", "10.0.0.{}/24"), "AF_INET"),
    ],
    ids=["IPv4", "IPv6", "both"],
)
def test_nccl_takes_the_family_of_the_address(addresses: tuple[str, ...], family: str) -> None:
    facts = (
        host(
            f"h{n}",
            interfaces=(Interface("eth0", "ethernet", tuple(row.format(n) for row in addresses)),),
            gpus=gpus(1),
        )
        for n in (1, 2)
    )
    made = plan(*facts)
    assert {env(made, rank)["NCCL_SOCKET_FAMILY"] for rank in (0, 1)} == {family}


def test_nccl_over_ethernet_names_no_hca() -> None:
    assert "NCCL_IB_HCA" not in env(plan(*hosts(2, gpus=gpus(1))))


def test_nccl_fails_fast_and_notes_its_transport_in_a_file_of_its_own() -> None:
    got = env(plan(*hosts(2, gpus=gpus(1), engine=engine()), image="i", timeout="90s"))
    assert got["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "3"
    assert got["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"] == got["DDP_PLAY_TIMEOUT"] == "90"
    assert got["TORCH_FR_DUMP_TEMP_FILE"] == got["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] == "/ddp-play/rank/flight-recorder-"
    assert (got["NCCL_DEBUG"], got["NCCL_DEBUG_FILE"]) == ("INFO", "/ddp-play/rank/nccl.log")


def test_whoever_sets_nccl_debug_has_it_his_way() -> None:
    got = env(plan(*hosts(2, gpus=gpus(1)), env={"NCCL_DEBUG": "WARN"}))
    assert got["NCCL_DEBUG"] == "WARN"
    assert "NCCL_DEBUG_FILE" not in got


def test_gloo_is_told_nothing_of_nccl() -> None:
    assert [name for name in env(plan(*hosts(2))) if "NCCL" in name or "_FR_" in name] == []


@pytest.mark.parametrize(
    ("ports", "value"),
    [
        ((rdma("mlx5_0"), rdma("mlx5_1")), "=mlx5_0:1,mlx5_1:1"),
        ((rdma("mlx5_0"), rdma("mlx5_1", "DOWN")), "=mlx5_0:1"),
        ((rdma("mlx5_0"), RdmaPort("mlx5_bond_0", 1, "ACTIVE", 100.0, "Ethernet")), "=mlx5_0:1"),
        ((rdma("mlx5_0", "INIT"),), None),
    ],
)
def test_hcas_are_the_active_infiniband_ports(ports: tuple[RdmaPort, ...], value: str | None) -> None:
    assert env(plan(*(ib_host(f"g{n}", n, rdma=ports) for n in (1, 2)))).get("NCCL_IB_HCA") == value


def test_no_variable_of_torchelastic_but_the_error_file() -> None:
    assert [name for name in env(plan()) if name.startswith("TORCHELASTIC")] == ["TORCHELASTIC_ERROR_FILE"]


def test_processes_get_a_home_and_ddp_python_first_in_path() -> None:
    got = env(plan(host(rank_python="/opt/conda/bin/python")))
    assert (got["HOME"], got["USER"]) == ("/home/ops", "ops")
    assert got["PATH"].split(":")[:2] == ["/opt/conda/bin", "/usr/local/bin"]


def test_containers_keep_their_own_path() -> None:
    got = env(plan(host(engine=engine()), image="i"))
    assert "PATH" not in got
    assert got["HOME"] == "/ddp-play/rank"


def test_secrets_are_told_by_file_only() -> None:
    for image, place in (("", "<secrets_dir>"), ("i", "/run/secrets")):
        made = plan(host(engine=engine()), secret_names=("API_KEY",), image=image)
        assert env(made)["API_KEY_FILE"] == f"{place}/API_KEY"
        assert "API_KEY" not in env(made)


@pytest.mark.parametrize(
    ("name", "source"),
    [("HF_TOKEN", "job: ddp_job_env, a secret"), ("USER", "job: ddp_job_env, a secret, instead of ops")],
)
def test_a_secret_variable_has_a_place_and_no_value(name: str, source: str) -> None:
    found = var(plan(secret_env=(name,)), name)
    assert (found.value, found.source, found.is_secret) == ("<secret>", source, True)


def test_a_value_that_only_looks_like_a_secrets_place_is_none() -> None:
    assert not var(plan(env={"A": "<secret>"}), "A").is_secret


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (plan(*hosts(2)), "true"),
        (plan(*hosts(2, gpus=gpus(1))), None),
        (plan(*hosts(2, gpus=gpus(1)), gpus="none"), "true"),
        (plan(host("a", "10.0.0.1/24"), host("b", "10.0.0.2/24", gpus=gpus(1))), None),
        (plan(env={"ACCELERATE_USE_CPU": "false"}), "false"),
    ],
    ids=["no GPUs", "GPUs", "GPUs that are not used", "GPUs on some hosts", "the job knows better"],
)
def test_accelerate_connects_ranks_on_cpus_only_if_told(made: Plan, value: str | None) -> None:
    assert env(made).get("ACCELERATE_USE_CPU") == value


def test_weights_and_biases_goes_on_with_the_runs_of_the_ranks() -> None:
    assert "WANDB_RUN_ID" not in env(plan(*hosts(2)), 1)
    made = plan(*hosts(2), wandb_resume=True)
    got = [env(made, rank) for rank in (0, 1)]
    assert [row["WANDB_RUN_ID"] for row in got] == ["<run_key>-0", "<run_key>-1"]
    assert {(row["WANDB_RESUME"], row["WANDB_RUN_GROUP"]) for row in got} == {("allow", "<run_key>")}
