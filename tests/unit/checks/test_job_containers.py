"""Containers of a job for programs of a check: they are made with the words of its ranks, but for the command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.checks.job_containers import JobContainers, containers_of
from ddp_play.checks.time_budget import CONTAINER_LEAST_S
from tests.unit.build import engine, host, plan, shared

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = tuple(host(f"h{n}", f"10.0.0.{n}/24", engine=engine()) for n in (1, 2))
JOB: dict[str, Any] = {"runtime": "docker", "image": "train:1", "command": ["/opt/bin/python3.12", "train.py"]}


@dataclass
class Talk:
    """Hosts that answer what `run` holds; `odd` answer something else."""

    run: Mapping[str, Any] = field(default_factory=dict)
    odd: tuple[str, ...] = ()
    lost: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Mapping[str, dict[str, Any]]] = field(default_factory=dict)

    def cap_s(self, limit_s: float) -> float:
        return limit_s

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        assert limit_s > 0
        self.asked[kind] = fields
        if kind == "container_place":
            return {
                name: {} if name in self.odd else {"directory": "/s/runs/x", "secrets": "/m/x", "uid": 1000}
                for name in fields
            }
        if kind == "container_end":
            return {"h1": {"left": ["x"]}}
        return {name: self.run[name] for name in fields if name in self.run}


def asked(talk: Talk, **values: Any) -> Mapping[str, dict[str, Any]]:
    JobContainers(talk, plan(*HOSTS, **{**JOB, **values})).read(["h1", "h2"])
    return talk.asked["container_run"]


def test_the_container_is_that_of_the_first_rank_without_its_command() -> None:
    made = plan(*HOSTS, **JOB, shm_size="1g", ranks_per_host=2)
    talk = Talk()
    JobContainers(talk, made).read(["h1", "h2"])
    fields = talk.asked["container_run"]
    (rank,) = fields["h2"]["spec"]["ranks"]
    own = made.hosts[1].rank(2)
    assert rank["rank"] == 2
    words = [*rank["create"], *own.argv]
    assert len(words) == len(own.create)
    same = [(one, other) for one, other in zip(own.create, words, strict=True) if "<" not in one]
    assert all(one == other for one, other in same)
    assert "--shm-size" in words
    assert "/s/runs/x/logs/rank-2.log" in " ".join(words)
    assert not any("<" in word for word in words)
    assert fields["h1"]["key"] != fields["h2"]["key"], "what one host removes is never another's"


def test_it_takes_no_lease_no_slot_and_no_source() -> None:
    for row in asked(Talk()).values():
        spec = row["spec"]
        assert (spec["leases"], spec["slots"], spec["source"]["role"], spec["pmi"]) == ([], {}, "none", None)
        assert spec["head"] is True, "it removes its own directory on the shared one"


def test_the_program_is_started_with_the_python_of_the_command_or_another() -> None:
    words = asked(Talk())["h1"]["words"]
    assert words[:2] == ["sh", "-c"]
    assert words[-3:] == ["/opt/bin/python3.12", "python3", "python"]
    assert "getaddrinfo" in words[5]
    assert json.loads(words[6])["names"] == ["h1", "h2"]
    assert asked(Talk(), command=["./train"])["h1"]["words"][-2:] == ["python3", "python"]


def test_directories_are_those_that_a_rank_writes_to(tmp_path: Path) -> None:
    with_shared = tuple(host(f"h{n}", f"10.0.0.{n}/24", engine=engine(), shared=shared()) for n in (1, 2))
    talk = Talk()
    JobContainers(talk, plan(*with_shared, **JOB, source=str(tmp_path))).read([])
    row = talk.asked["container_run"]["h1"]
    order = json.loads(row["words"][6])
    assert set(order["directories"]) == {"work directory", "shared directory"}
    files = [entry["spec"]["owned_paths"] for entry in talk.asked["container_run"].values()]
    assert files[0] == [f"{order['directories']['shared directory']}/{order['file']}"], "the host removes it"
    assert files[0] != files[1]
    assert any(entry["path"].endswith("/src") for entry in row["spec"]["make_dirs"])
    assert json.loads(asked(Talk())["h1"]["words"][6])["directories"] == {}


def test_an_engine_has_seconds_to_start_one_also_where_little_time_is_left() -> None:
    class Late(Talk):
        def cap_s(self, limit_s: float) -> float:
            return min(limit_s, CONTAINER_LEAST_S - 2.0)

    for row in asked(Late()).values():
        assert row["start_s"] == 5.0
        assert row["start_s"] + row["limit_s"] < CONTAINER_LEAST_S, "with less, none is started"
    assert {row["start_s"] for row in asked(Talk()).values()} == {20.0}


def test_secrets_are_files_without_their_values() -> None:
    made = plan(*HOSTS, **JOB, secret_names=("LICENCE",), secret_env=("TOKEN",))
    talk = Talk()
    JobContainers(talk, made).read([])
    spec = talk.asked["container_run"]["h1"]["spec"]
    assert spec["secrets"] == {"TOKEN": "", "LICENCE": ""}


def test_a_torchrun_has_one_container_for_all_ranks_of_its_host() -> None:
    rows = asked(Talk(), launcher="torchrun", ranks_per_host=2)
    spec = rows["h1"]["spec"]
    assert len(spec["ranks"]) == 2
    assert spec["agent"]["create"][-1] == "rank"
    assert "torch.distributed.run" not in spec["agent"]["create"]


def test_a_host_that_answers_something_else_is_lost() -> None:
    talk = Talk(odd=("h2",))
    assert set(asked(talk)) == {"h1"}
    assert "container_place" in talk.lost["h2"]


def test_the_python_of_each_container_that_has_torch(tmp_path: Path) -> None:
    def said(torch: str) -> dict[str, Any]:
        parts = [{"part": "start", "python": "/opt/bin/python3.12"}, {"part": "versions", "torch": torch}]
        return {"program": {"value": {"parts": parts}}}

    talk = Talk({"h1": said("2.13.0"), "h2": said("")})
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan(*HOSTS, **JOB).to_json()))
    containers = containers_of(talk, str(path))
    assert containers is not None
    containers.read([])
    assert containers.pythons() == {"h1": "/opt/bin/python3.12"}
    containers.end()
    assert set(talk.asked["container_end"]) == {"h1", "h2"}
    assert [containers.answers[name]["end"] for name in ("h1", "h2")] == [{"left": ["x"]}, None]
    assert containers_of(talk, "") is None
    shapes: tuple[Any, ...] = ({"program": {"value": []}}, {"program": {"problem": "late"}}, {"program": 3})
    for odd in shapes:
        containers.answers = {"h1": odd}
        assert containers.pythons() == {}
