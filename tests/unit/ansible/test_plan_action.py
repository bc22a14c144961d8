"""The plan and the run directory, from the job's variables and discovery."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible import plan_action, plugin_variables
from ddp_play.bundle.paths import RunPaths, home, read_json, write_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.job_secrets import JobSecrets
from ddp_play.planning.plan_document import plan_from_json
from tests.unit.build import plan


def raw_facts(name: str) -> dict[str, Any]:
    """What the program on a host answers."""
    return {
        "hostname": name,
        "machine": name,
        "python": "/usr/bin/python3",
        "python_version": "3.11.2",
        "user": {
            "name": "ops",
            "home": "/home/ops",
            "uid": 1000,
            "gid": 1000,
            "groups": {"ops": 1000},
            "login_uid": 1000,
            "login_gid": 1000,
            "login_name": "ops",
        },
        "cpus": 4,
        "memory_mib": 1000,
        "disk_free_mib": 1000,
        "nofile_hard": 1024,
        "interfaces": [{"name": "lo", "link": "loopback", "addresses": ["127.0.0.1/8"]}],
        "rdma": [],
        "gpus": [],
        "gpu_problem": "",
        "numa": {"nodes": [], "numactl": False},
        "resolves_to": [],
        "nccl_conf": False,
        "ephemeral_ports": [32768, 60999],
        "rank_python": {"path": "/usr/bin/python3", "problem": ""},
        "inventory": {"slots": 2},
    }


ROUTE = {"host": "h1", "argv": ["ssh", "h1"], "command": "c", "become_prompt": "", "become_success": ""}
MISSPELT = {"ddp_job_imgae": "job.yml:9"}
FOUND: dict[str, Any] = {"h1": {"facts": raw_facts("h1"), "route": ROUTE}}
VALUES: dict[str, Any] = {"command": ["true"], "image": None}


def plan_job(values: dict[str, Any] | None = None, found: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    rows = found or FOUND
    defaults: dict[str, Any] = {"secrets": JobSecrets({}), "playbook_dir": "/play", "paths": plan_action.run_paths()}
    defaults["places"] = {}
    return plan_action.plan_job(
        values or VALUES, list(rows), lambda _, hosts: {host: rows[host] for host in hosts}, **{**defaults, **more}
    )


def test_a_plan_is_written_where_run_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = RunPaths(tmp_path / "night-1")
    paths.create()
    write_json(paths.run, {"id": "night-1", "argv": ["ddp-play"], "job": "given"})
    monkeypatch.setenv(plugin_variables.RUN_DIR_ENV, str(paths.root))
    got = plan_job()
    assert got == {
        "run_id": "night-1",
        "run_dir": str(paths.root),
        "summary": "2 ranks on 1 host (processes), gloo over local, env",
    }
    assert plan_from_json(read_json(paths.plan)).world_size == 2
    assert read_json(paths.channels) == {"routes": [ROUTE]}
    document = read_json(paths.run)
    assert (document["argv"], document["hosts"], document["status"]) == (["ddp-play"], ["h1"], "starting")
    assert set(document["versions"]) == {"ddp-play", "ansible-core", "ansible-runner"}


def test_under_plain_ansible_playbook_a_run_gets_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    got = plan_job()
    assert Path(got["run_dir"]) == home() / "runs" / got["run_id"]
    monkeypatch.setenv(plugin_variables.RUN_DIR_ENV, got["run_dir"])
    assert plan_job()["run_id"] != got["run_id"], "a second job of the playbook is a run of its own"


@pytest.mark.parametrize(
    ("values", "more", "words"),
    [
        ({"command": []}, {}, "ddp_job_command is empty"),
        (VALUES, {"found": {"rack1/h1": FOUND["h1"]}}, "host rack1/h1: a host's name cannot have '/'"),
        ({**VALUES, "restarts": "a"}, {"places": {"ddp_job_restarts": "job.yml:7"}}, "job.yml:7: ddp_job_restarts: "),
        (
            VALUES,
            {"found": {"h1": {**FOUND["h1"], "variables": MISSPELT}}},
            "job.yml:9: unknown variable ddp_job_imgae",
        ),
        ({**VALUES, "env": {"NOT_THERE": None}}, {}, "bare key NOT_THERE"),
    ],
)
def test_the_error_of_a_refused_plan_is_in_run_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv(plugin_variables.RUN_DIR_ENV, str(tmp_path / "r1"))
    with pytest.raises(UsageError, match=words.replace("?", r"\?")) as caught:
        plan_job(values, **more)
    plan_action.record_failure(caught.value, plan_action.run_paths())
    document = read_json(tmp_path / "r1" / "run.json")
    assert (document["status"], document["exit_code"], document["exit_class"]) == ("failed", 64, "usage")
    assert words in document["verdict"]["message"]
    assert not (tmp_path / "r1" / "plan.json").exists()


def test_a_misspelt_variable_of_the_play_is_refused_before_any_host_is_asked() -> None:
    """It used to wait for all hosts, of which one may not answer, and to tell first that the right one is not set."""

    def ask(_job: object, _hosts: list[str]) -> dict[str, Any]:
        raise AssertionError("a host was asked")

    with pytest.raises(UsageError, match=r"job.yml:9: unknown variable ddp_job_comand; did you mean ddp_job_command\?"):
        plan_action.plan_job(
            {}, ["h1"], ask, secrets=JobSecrets({}), places={"ddp_job_comand": "job.yml:9"}, playbook_dir="/play",
            paths=plan_action.run_paths(),
        )  # fmt: skip


def test_a_host_that_was_not_discovered_is_named() -> None:
    with pytest.raises(HostNotReady, match="h2: it was not discovered"):
        plan_job(found={**FOUND, "h2": {}})


def test_routes_of_unused_hosts_are_not_kept() -> None:
    problem = {"host": "h2", "kind": "unreachable", "message": "no route", "hint": ""}
    got = plan_job({**VALUES, "hosts": "1.."}, {**FOUND, "h2": {"problem": problem}})
    assert read_json(Path(got["run_dir"], "channels.json"))["routes"] == [ROUTE]
    assert plan_from_json(read_json(Path(got["run_dir"], "plan.json"))).left_out == (("h2", "no route"),)


def test_hosts_that_were_not_asked_are_one_line_of_the_plan() -> None:
    got = plan_job({**VALUES, "hosts": 1}, {**FOUND, "h2": {}, "h3": {}, "h4": {}})
    made = plan_from_json(read_json(Path(got["run_dir"], "plan.json")))
    assert made.left_out == (("h2 and 2 more", "not asked: ddp_job_hosts needs no more hosts"),)


@pytest.mark.parametrize(
    ("given", "taken"), [("src", "/play/src"), ("/abs", "/abs"), ("~/x", "{home}/x"), ("../up", "/up"), ("", "")]
)
def test_the_source_is_relative_to_the_playbook(given: str, taken: str) -> None:
    got = plan_job({**VALUES, "source": given})
    assert read_json(Path(got["run_dir"], "plan.json"))["source"] == taken.format(home=os.environ["HOME"])


def test_bare_keys_come_from_the_callers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    value = "{{ 'kept' }} \"q\"\nsecond " + os.fsdecode(b"\xe9")
    monkeypatch.setenv("FROM_CALLER", value)
    got = plan_job({**VALUES, "env": {"FROM_CALLER": None}})
    made = plan_from_json(read_json(Path(got["run_dir"], "plan.json")))
    assert [var.value for var in made.hosts[0].rank(0).env if var.name == "FROM_CALLER"] == [value]


@pytest.mark.parametrize(
    ("values", "text"),
    [({}, "1 rank on 1 host (processes), gloo over local, env"), ({"ranks_per_host": 2}, "2 ranks on 1 host")],
)
def test_a_plan_in_one_line(values: dict[str, Any], text: str) -> None:
    assert plan_action.summarize(plan(**values)).startswith(text)


def test_a_job_of_another_engine_is_not_run_on_an_inventorys_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(plugin_variables.ENGINE_ENV, raising=False)
    with pytest.raises(UsageError, match="ddp_job_engine is slurm") as refused:
        plan_job({**VALUES, "engine": "slurm"})
    assert refused.value.hint == "ddp-play run PLAYBOOK --on slurm"
    monkeypatch.setenv(plugin_variables.ENGINE_ENV, "slurm")
    assert plan_job({**VALUES, "engine": "slurm"})["summary"].startswith("2 ranks on 1 host")


def test_pyxis_is_refused_where_slurm_did_not_give_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {**VALUES, "image": "/x.sqsh", "runtime": "pyxis"}
    monkeypatch.delenv(plugin_variables.ENGINE_ENV, raising=False)
    with pytest.raises(UsageError, match="pyxis, a plugin of Slurm") as refused:
        plan_job(values)
    assert "--on slurm" in refused.value.hint
    monkeypatch.setenv(plugin_variables.ENGINE_ENV, "slurm")
    assert plan_job(values)["summary"].startswith("2 ranks on 1 host")


def test_only_the_job_is_described_where_there_are_no_hosts_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = RunPaths(tmp_path / "job")
    monkeypatch.setenv(plugin_variables.RUN_DIR_ENV, str(paths.root))
    monkeypatch.setenv(plugin_variables.DESCRIBE_ENV, "1")
    values = {**VALUES, "engine": "slurm", "hosts": "4", "source": "src"}
    plan_action.plan_job(
        values,
        ["n"],
        lambda *_: pytest.fail("a host was asked"),
        secrets=JobSecrets({}),
        places={},
        playbook_dir="/play",
        paths=plan_action.run_paths(),
    )
    assert read_json(paths.job)["hosts"] == [4, 4]
    assert read_json(paths.job)["source"] == "/play/src"
    assert not paths.plan.exists()
