"""Host specs: leases, source, paths, environment and limits of each host."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.run.host_spec import HostPlace, Launch, mpich_shared_memory
from ddp_play.run.source_snapshot import Snapshot
from tests.unit.build import apptainer, engine, gpus, host, hosts, numa_host, plan, shared

if TYPE_CHECKING:
    from ddp_play.planning.plan_document import Plan

PLACE = HostPlace("/state/x", "/shm/x", 1000)
SNAPSHOT = Snapshot(b"archive", "d1gest", {"train.py": (10, 1.0)})


def specs(made: Plan, *, snapshot: Snapshot | None = None, place: HostPlace = PLACE) -> list[dict[str, Any]]:
    launch = Launch(made, run_id="calm-otter-1", attempt=2, port=29511, owner="me", created=1.5, snapshot=snapshot)
    return [launch.host_spec(item, place) for item in made.hosts]


def test_only_the_head_holds_the_ports_lease() -> None:
    assert [spec["leases"] for spec in specs(plan(*hosts(3)))] == [["port-29511"], [], []]


@pytest.mark.parametrize(
    ("facts", "snapshot", "roles", "collects"),
    [
        (hosts(2, shared=shared()), SNAPSHOT, ["unpack", "wait"], [True, False]),
        (hosts(2), SNAPSHOT, ["unpack", "unpack"], [True, True]),
        (hosts(2), None, ["none", "none"], [False, False]),
    ],
)
def test_who_unpacks_the_source(facts: Any, snapshot: Snapshot | None, roles: list[str], collects: list[bool]) -> None:
    got = [spec["source"] for spec in specs(plan(*facts, source="/code" if snapshot else ""), snapshot=snapshot)]
    assert [row["role"] for row in got] == roles
    assert [row["collect"] for row in got] == collects
    if snapshot:
        assert {row["digest"] for row in got} == {"d1gest"}
        assert got[0]["manifest"] == {"train.py": (10, 1.0)}


RENDEZVOUS = "/shared/.ddp-play/calm-otter-1/rendezvous-2"


@pytest.mark.parametrize(
    ("facts", "values", "owned", "of_run"),
    [
        (hosts(2), {}, [[], []], [[], []]),
        (hosts(2, shared=shared()), {}, [[], []], [["/shared/.ddp-play/calm-otter-1"]] * 2),
        ((host(machine="m"),), {"init_method": "file"}, [["/tmp/ddp-play-rendezvous-calm-otter-1-2"]], [[]]),
        (hosts(1, shared=shared()), {"init_method": "file"}, [[RENDEZVOUS]], [["/shared/.ddp-play/calm-otter-1"]]),
    ],
)
def test_paths_of_the_attempt_and_paths_of_the_run(
    facts: Any, values: dict[str, Any], owned: list[list[str]], of_run: list[list[str]]
) -> None:
    told = specs(plan(*facts, **values))
    assert [spec["owned_paths"] for spec in told] == owned
    assert [spec["run_paths"] for spec in told] == of_run
    assert [spec["head"] for spec in told] == [True, False][: len(told)]


def test_mpichs_shared_memory_has_the_name_that_mpich_gives_it() -> None:
    """As seen in /dev/shm of a third host after a run of this name had been killed; MPICH 5.0."""
    assert mpich_shared_memory("collectives-mpi-3fcd82", 2) == "/dev/shm/mpich_shm_6605f526_2"
    told = specs(plan(*hosts(2), backend="mpi"))
    assert [spec["owned_paths"] for spec in told] == [[mpich_shared_memory("calm-otter-1", node)] for node in (0, 1)]


def test_directories_to_make() -> None:
    made = plan(*hosts(1, shared=shared()), source="/code")
    assert specs(made, snapshot=SNAPSHOT)[0]["make_dirs"] == [
        {"path": "/shared/.ddp-play", "mode": 0o1777},
        {"path": "/shared/.ddp-play/calm-otter-1", "mode": 0o711},
        {"path": "/shared/.ddp-play/calm-otter-1/src", "mode": 0o700},
    ]
    assert specs(plan())[0]["make_dirs"] == []


def test_no_placeholder_is_left() -> None:
    made = plan(
        *hosts(2, engine=engine(), shared=shared()),
        image="i",
        source="/code",
        init_method="tcp",
        command=["t", "{init_method}", "{run_id}", "{head_port}"],
        secret_names=("S",),
    )
    for spec in specs(made, snapshot=SNAPSHOT):
        text = json.dumps(spec)
        assert not [
            token for token in ("<run_id>", "<attempt>", "<head_port>", "<host_dir>", "<secrets_dir>") if token in text
        ]
    rank = specs(made, snapshot=SNAPSHOT)[0]["ranks"][0]
    assert rank["argv"] == ["t", "tcp://10.0.0.2:29511", "calm-otter-1", "29511"]
    assert rank["env"]["MASTER_PORT"] == "29511"
    assert rank["env"]["S_FILE"] == "/run/secrets/S"
    assert rank["container"] == "ddp-calm-otter-1-a2-r0"
    assert rank["create"][:3] == ["create", "--name", "ddp-calm-otter-1-a2-r0"]


@pytest.mark.parametrize("more", [{}, {"launcher": "torchrun"}])
@pytest.mark.parametrize("image", ["", "i"])
def test_a_secret_variable_is_named_to_the_host_and_recorded_without_a_value(image: str, more: dict[str, Any]) -> None:
    made = plan(host(engine=engine()), image=image, env={"A": "<secret>"}, secret_env=("HF_TOKEN",), **more)
    spec = specs(made)[0]
    for unit in (spec["agent"] or spec["ranks"][0], spec["ranks"][0]):
        assert unit["secret_env"] == ["HF_TOKEN"]
        assert "HF_TOKEN" not in unit["env"]
        assert unit["env"]["A"] == "<secret>"
        assert "--env HF_TOKEN" not in " ".join(unit["create"])
    record = spec["ranks"][0]["env_file"]
    assert "# HF_TOKEN is a secret, which only the rank got (job: ddp_job_env, a secret)\n" in record
    assert "HF_TOKEN=" not in record


def test_a_users_value_that_looks_like_a_placeholder_is_unchanged() -> None:
    assert specs(plan(env={"A": "<run_id> <head_port>"}))[0]["ranks"][0]["env"]["A"] == "<run_id> <head_port>"


def test_a_value_without_placeholders_is_unchanged() -> None:
    made = plan(env={"A": "plain"})
    bound = Launch(made, "r", 1, 1, "me", 0.0).env(made.hosts[0].rank(0), PLACE)
    assert [var for var in bound if var.name == "A"] == [var for var in made.hosts[0].rank(0).env if var.name == "A"]


@pytest.mark.parametrize(("uid", "user"), [(1000, None), (0, {"uid": 1000, "gid": 1000, "groups": [1000]})])
def test_a_user_is_set_only_if_it_differs_from_the_logins(uid: int, user: dict[str, Any] | None) -> None:
    spec = specs(plan(), place=HostPlace("/s", "/shm", uid))[0]
    assert spec["user"] == spec["ranks"][0]["user"] == user


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"numa": "node"}, [("0-1,8-9", "0"), ("2-3,10-11", "1")]),
        ({"numa": "none"}, [(None, None)] * 2),
        ({"image": "i"}, [(None, None)] * 2),  # the container has them
        ({"launcher": "torchrun", "numa": "node"}, [(None, None)] * 2),  # torchrun binds
    ],
)
def test_the_guard_binds_processes(values: dict[str, Any], expected: list[Any]) -> None:
    ranks = specs(plan(numa_host(on=(0, 1), engine=engine()), **values))[0]["ranks"]
    assert [(rank.get("cpus"), rank.get("memory_nodes")) for rank in ranks] == expected


@pytest.mark.parametrize(
    ("facts", "values", "numbers"),
    [
        ({"gpus": gpus(4)}, {}, [0, 1, 2, 3]),
        ({"gpus": gpus(4)}, {"ranks_per_host": 2}, [0, 1]),
        ({"gpus": gpus(2)}, {"ranks_per_host": 4, "backend": "gloo"}, [0, 1]),
        ({"gpus": gpus(4)}, {"env": {"CUDA_VISIBLE_DEVICES": "3"}, "ranks_per_host": 1}, []),
        ({"gpus": gpus(4)}, {"gpus": "none"}, []),
        ({}, {}, []),
    ],
    ids=["all", "some", "more ranks", "chosen by the job", "not wanted", "none"],
)
def test_gpus_whose_slots_the_ranks_take(facts: dict[str, Any], values: dict[str, Any], numbers: list[int]) -> None:
    assert specs(plan(host(**facts), **values))[0]["gpus"] == numbers


def test_limits_are_the_jobs() -> None:
    spec = specs(plan(grace="1m", failure_grace=3, max_duration="2h", lease="10m", signal="USR1"))[0]
    expected = {"grace_s": 60, "failure_grace_s": 3, "max_duration_s": 7200, "lease_s": 600, "signal": "SIGUSR1"}
    assert {name: spec["limits"][name] for name in expected} == expected
    assert spec["limits"]["go_wait_s"] > 0


def test_a_rank_of_pyxis_is_a_process_that_enters_the_container() -> None:
    given: dict[str, Any] = {
        "image": "/x.sqsh",
        "runtime": "pyxis",
        "source": "/code",
        "mounts": ["/data:/data"],
        "env": {"A": "$b"},
    }
    (spec,) = specs(plan(host(), secret_env=("TOKEN",), **given))
    (rank,) = spec["ranks"]
    assert (spec["runtime"], rank["workdir"], rank["container"], rank["create"]) == ("pyxis", "/", None, [])
    assert rank["argv"] == ["/bin/sh", "/state/x/enter-container", "/state/x/src", "python", "train.py"]
    assert "num_image_words" not in rank, "nothing stands between the guard and the rank"
    assert "--container-mounts=/state/x:/state/x,/data:/data" in rank["step_options"]
    assert (rank["env"]["DDP_PLAY_INSIDE_A"], rank["secret_env"]) == ("$b", ["TOKEN"])
    assert (rank["secret_prefix"], "A=$b" in rank["env_file"]) == ("DDP_PLAY_INSIDE_", True)


def test_a_rank_in_an_image_is_a_process_with_apptainers_words() -> None:
    (spec,) = specs(plan(host(apptainer=apptainer()), image="/x.sif", env={"A": "$b"}, secret_env=("TOKEN",)))
    (rank,) = spec["ranks"]
    assert (spec["runtime"], spec["image"], rank["workdir"], rank["container"]) == ("apptainer", "/x.sif", "/", None)
    assert rank["argv"][rank["num_image_words"] - 1 :] == ["/x.sif", "python", "train.py"]
    assert rank["argv"][5:9] == [
        "--home",
        "/state/x/rank-0",
        "--mount",
        "type=bind,source=/state/x,destination=/state/x",
    ]
    assert (rank["env"]["APPTAINERENV_A"], rank["env"]["APPTAINERENV_RANK"]) == ("$b", "0")
    assert (rank["secret_env"], rank["secret_prefix"]) == (["TOKEN"], "APPTAINERENV_")
    assert "TOKEN" not in " ".join(rank["argv"])
    assert "A=$b" in rank["env_file"], "the record has the names that the rank sees"
