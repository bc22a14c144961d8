"""One torchrun a host: its command, its container, its environment, and what it cannot do."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
from string import Template
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import Unit, command_line, plan_from_json
from tests.unit.build import engine, host, hosts, plan

if TYPE_CHECKING:
    from pathlib import Path

UNEVEN = tuple(dataclasses.replace(item, slots=count) for item, count in zip(hosts(3), (2, 1, 1), strict=True))


def agents(*facts: Any, **values: Any) -> list[Unit]:
    made = plan(*(facts or UNEVEN), launcher="torchrun", **values)
    found = [item.agent for item in made.hosts]
    return [agent for agent in found if agent is not None]


def options(agent: Unit) -> dict[str, str]:
    """--name -> value, before --no-python."""
    words = agent.argv[3 : agent.argv.index("--no-python")]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_static_rendezvous_with_the_true_number_of_ranks_on_each_host() -> None:
    found = agents()
    assert [options(agent)["--nproc-per-node"] for agent in found] == ["2", "1", "1"]
    assert [options(agent)["--node-rank"] for agent in found] == ["0", "1", "2"]
    assert {(options(agent)["--master-addr"], options(agent)["--master-port"]) for agent in found} == {
        ("10.0.0.2", "<head_port>")
    }
    assert {options(agent)["--rdzv-backend"] for agent in found} == {"static"}
    assert {options(agent)["--max-restarts"] for agent in found} == {"0"}


def test_c10d_says_who_hosts_and_who_one_is() -> None:
    found = agents(rdzv="c10d")
    assert [options(agent)["--rdzv-conf"] for agent in found] == ["is_host=1", "is_host=0", "is_host=0"]
    assert [options(agent)["--local-addr"] for agent in found] == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
    assert {options(agent)["--rdzv-id"] for agent in found} == {"<run_key>"}
    assert "--node-rank" not in options(found[0])


@pytest.mark.parametrize(
    ("command", "python"),
    [
        (["python", "t.py"], "python"),
        (["/opt/py/bin/python3.12", "t.py"], "/opt/py/bin/python3.12"),
        (["./t.sh"], "python3"),
        (["pythonic"], "python3"),
    ],
)
def test_the_interpreter_is_the_jobs_own(command: list[str], python: str) -> None:
    assert agents(command=command)[0].argv[:3] == (python, "-m", "torch.distributed.run")


def test_what_torchrun_sets_is_not_set_for_it() -> None:
    agent = agents(grace="90s")[0]
    names = {var.name: var.value for var in agent.env}
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_ERROR_FILE", "DDP_PLAY_RESULT"} & set(names)
    assert names["PET_SHUTDOWN_TIMEOUT"] == "90"
    assert "SIGUSR1" in names["PET_SIGNALS_TO_HANDLE"]
    assert names["GLOO_SOCKET_IFNAME"] == "eth0"
    made = plan(*UNEVEN, launcher="torchrun")
    sources = {var.name: var.source for var in made.hosts[0].rank(0).env}
    assert sources["RANK"] == sources["MASTER_PORT"] == "torchrun"


@pytest.mark.parametrize(("values", "log_dir"), [({}, "<host_dir>/torchrun"), ({"image": "x"}, None)])
def test_torchrun_makes_no_directory_in_tmp_of_a_host(values: dict[str, Any], log_dir: str | None) -> None:
    agent = agents(*(dataclasses.replace(item, engine=engine()) for item in UNEVEN), **values)[0]
    assert {var.name: var.value for var in agent.env}.get("PET_LOG_DIR") == log_dir


def test_one_container_holds_a_hosts_ranks_and_their_share() -> None:
    facts = tuple(dataclasses.replace(item, engine=engine()) for item in UNEVEN)
    found = agents(*facts, image="team/train:2", cpus=2, memory="4g")
    words = " ".join(found[0].create)
    assert "--name ddp-<run_key>-a<attempt>-n0" in words
    assert "ddp-play.rank=0,1" in words
    assert "--cpus 4 --memory 8g --memory-swap 8g" in words
    assert "--cpus 2 --memory 4g" in " ".join(found[1].create)
    for rank in (0, 1):
        assert f"source=<host_dir>/logs/rank-{rank}.log,target=/ddp-play/logs/rank-{rank}.log" in words
        assert f"source=<host_dir>/rank-{rank},target=/ddp-play/rank-{rank}" in words
    assert "source=<host_dir>/logs/torchrun.log,target=/ddp-play/log" in words
    assert plan(*facts, launcher="torchrun", image="i").hosts[0].rank(1).create == ()


@pytest.mark.parametrize("name", ["rank", "local_rank"])
def test_a_command_for_one_rank_only_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="all ranks have the same command") as caught:
        plan(launcher="torchrun", command=["t", "--rank={" + name + "}"])
    assert "ddp_job_launcher to ranks" in caught.value.hint


def test_it_survives_json_and_reads_like_a_command() -> None:
    made = plan(*UNEVEN, launcher="torchrun")
    assert plan_from_json(json.loads(json.dumps(made.to_json()))) == made
    agent = made.hosts[1].agent
    assert agent is not None
    assert command_line(agent).startswith("python -m torch.distributed.run --nnodes 3 --nproc-per-node 1")
    assert plan(host()).hosts[0].agent is None


@pytest.mark.parametrize(("code", "left"), [("exit 7", "7"), ("kill -9 $$", "137"), ("kill -TERM $$", "143")])
def test_the_wrapper_writes_the_ranks_own_log_and_code(tmp_path: Path, code: str, left: str) -> None:
    """The real wrapper under a real shell, as torchrun hands it on, in a directory with a blank in its name."""
    home = tmp_path / "a b"
    (home / "rank-3").mkdir(parents=True)
    (home / "logs").mkdir()
    script = 'printf "out\\0 $DDP_PLAY_RESULT"; echo err >&2; ' + code
    agent = agents(command=["sh", "-c", script])[2]
    words = agent.argv[agent.argv.index("--no-python") + 1 :]
    words = tuple(Template(word).safe_substitute(local_rank="0").replace("<host_dir>", str(home)) for word in words)
    done = subprocess.run(words, env={"LOCAL_RANK": "0", "PATH": "/usr/bin:/bin"}, check=False, timeout=20)
    assert str(done.returncode) == left
    assert (home / "rank-3" / ".exited").read_text() == left + "\n"
    assert (home / "logs" / "rank-3.log").read_bytes() == b"out\0 %s/rank-3/result.jsonerr\n" % str(home).encode()
    assert shlex.split((home / "rank-3" / ".started").read_text())[0].isdigit()
