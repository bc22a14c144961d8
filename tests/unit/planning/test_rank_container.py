"""`docker create` of a rank: what is always there, what only with the hardware, what only when requested."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.planning.rank_container import EXPORT, REDIRECT
from tests.unit.build import engine, gpus, host, hosts, ib_host, plan, shared

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "team/train:2"


def create(*facts: Any, **values: Any) -> tuple[str, ...]:
    """The last host's first rank."""
    made = plan(*(facts or (host(engine=engine()),)), image=IMAGE, **values)
    return made.hosts[-1].rank(made.hosts[-1].ranks[0]).create


def values_of(words: tuple[str, ...], option: str) -> list[str]:
    """All values of an option before the image."""
    head = words[: words.index(IMAGE)]
    return [value for name, value in itertools.pairwise(head) if name == option]


def test_always() -> None:
    words = create()
    assert words[:3] == ("create", "--name", "ddp-<run_key>-a<attempt>-r0")
    assert values_of(words, "--network") == ["host"]
    assert values_of(words, "--ipc") == ["host"]
    assert values_of(words, "--user") == ["1000:1000"]
    assert values_of(words, "--ulimit") == ["nofile=1048576:1048576"]
    assert "--init" in words
    assert words[-2:] == ("python", "train.py")
    assert words[words.index(IMAGE) :][1:4] == ("sh", "-c", 'ulimit -S -c 0; exec "$@" >>/ddp-play/log 2>&1')


@pytest.mark.parametrize(
    "facts", [(host(engine=engine()),), (ib_host("a", 1, engine=engine()), ib_host("b", 2, engine=engine()))]
)
def test_never(facts: Any) -> None:
    words = create(*facts)
    assert "--privileged" not in words
    assert "SYS_PTRACE" not in words
    assert "-v" not in words
    assert not any(word.startswith(("PATH=", "RANK=")) for word in words), "values travel in the environment"


def test_labels_name_what_it_belongs_to() -> None:
    assert values_of(create(), "--label") == [
        "ddp-play.run=<run_id>",
        "ddp-play.key=<run_key>",
        "ddp-play.attempt=<attempt>",
        "ddp-play.rank=0",
        "ddp-play.host=h1",
        "ddp-play.owner=<owner>",
    ]


def test_every_variable_is_named() -> None:
    made = plan(host(engine=engine()), image=IMAGE, env={"A": "x y"})
    rank = made.hosts[0].rank(0)
    assert values_of(rank.create, "--env") == [var.name for var in rank.env]


@pytest.mark.parametrize(
    ("fields", "values", "with_gpus", "with_memlock"),
    [
        ({}, {}, False, False),
        ({"gpus": gpus(2)}, {}, True, True),
        ({"gpus": gpus(2)}, {"gpus": "none"}, False, False),
    ],
)
def test_all_gpus_of_the_host_or_none(
    fields: dict[str, Any], values: dict[str, Any], with_gpus: bool, with_memlock: bool
) -> None:
    words = create(host(engine=engine(), **fields), **values)
    assert values_of(words, "--gpus") == (["all"] if with_gpus else [])
    assert ("memlock=-1:-1" in words) is with_memlock


def test_rdma_devices_only_where_rdma_is_used() -> None:
    pair = [ib_host(f"g{n}", n, engine=engine()) for n in (1, 2)]
    used, unused = create(*pair), create(*pair, fabric="ethernet", backend="gloo")
    assert values_of(used, "--device") == ["/dev/infiniband"]
    assert values_of(used, "--cap-add") == ["IPC_LOCK"]
    assert values_of(unused, "--device") == values_of(unused, "--cap-add") == []


@pytest.mark.parametrize(
    ("values", "option", "expected"),
    [
        ({"cpus": 2.5}, "--cpus", ["2.5"]),
        ({}, "--cpus", []),
        ({"memory": "4g"}, "--memory", ["4g"]),
        ({"memory": "4g"}, "--memory-swap", ["4g"]),
        ({"groups": ["video", "44"]}, "--group-add", ["video", "44"]),
        ({"user": "1000:6"}, "--user", ["1000:6"]),
        ({"workdir": "/w"}, "--workdir", ["/w"]),
    ],
)
def test_what_the_job_asks_for(values: dict[str, Any], option: str, expected: list[str]) -> None:
    assert values_of(create(**values), option) == expected


def test_a_private_shm_wins_over_the_hosts() -> None:
    words = create(shm_size="2g")
    assert values_of(words, "--shm-size") == ["2g"]
    assert values_of(words, "--ipc")[-1] == "private", "docker takes the last one"


@pytest.mark.parametrize(("hard", "limit"), [(-1, 1048576), (4096, 4096), (2000000, 1048576)])
def test_open_files_stay_within_the_hosts_limit(hard: int, limit: int) -> None:
    assert values_of(create(host(engine=engine(), nofile_hard=hard)), "--ulimit") == [f"nofile={limit}:{limit}"]


def test_mounts() -> None:
    facts = hosts(2, engine=engine(), shared=shared(), nccl_conf=True)
    words = create(*facts, source="/code", mounts=["/data:/d:ro", "/s:/s"], secret_names=("S",))
    assert values_of(words, "--mount") == [
        "type=bind,source=<host_dir>/logs/rank-1.log,target=/ddp-play/log",
        "type=bind,source=<host_dir>/rank-1,target=/ddp-play/rank",
        "type=bind,source=/shared/.ddp-play/<run_key>/src,target=/workspace",
        "type=bind,source=/shared,target=/shared",
        "type=bind,source=<secrets_dir>,target=/run/secrets,readonly",
        "type=bind,source=/etc/nccl.conf,target=/etc/nccl.conf,readonly",
        "type=bind,source=/data,target=/d,readonly",
        "type=bind,source=/s,target=/s",
    ]


def test_a_bare_job_mounts_only_its_log_and_its_reports() -> None:
    assert len(values_of(create(), "--mount")) == 2


def test_without_secrets_the_shell_exports_nothing() -> None:
    assert REDIRECT in create(), "that alone"
    words = create(secret_env=("HF_TOKEN",))
    assert "type=bind,source=<secrets_dir>,target=/run/secrets,readonly" in words
    assert EXPORT.format(names="HF_TOKEN", directory="/run/secrets") + REDIRECT in words


@pytest.mark.parametrize("value", ["plain", "two\nlines\n\n", " $HOME `x` \"q\" 'q' \\n", "-n", ".", "größe"])
def test_a_secret_reaches_the_ranks_environment_exactly(tmp_path: Path, value: str) -> None:
    """By the shell that the container starts with; it keeps nothing of its own in the environment."""
    for name in ("HF_TOKEN", "B"):
        (tmp_path / name).write_text(value)
    script = EXPORT.format(names="HF_TOKEN B", directory=tmp_path) + 'exec "$@"'
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    argv = ["sh", "-c", script, "rank", sys.executable, "-c", code]
    done = subprocess.run(argv, env={"PATH": os.environ["PATH"], "PYTHONUTF8": "1"}, capture_output=True, check=True)
    got = json.loads(done.stdout)
    assert (got["HF_TOKEN"], got["B"]) == (value, value)
    assert not [name for name in got if name.startswith(("_name", "_value"))]


def test_a_secret_that_is_not_there_keeps_the_rank_from_starting(tmp_path: Path) -> None:
    script = EXPORT.format(names="HF_TOKEN", directory=tmp_path) + "echo started"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (126, "")
    assert "HF_TOKEN" in done.stderr
