"""What the role's action plugins do, without Ansible."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from ddp_play import actions
from ddp_play.collection import collection_root
from ddp_play.errors import HostNotReady, InternalError, UsageError
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.jobsecrets import JobSecrets
from ddp_play.paths import RunPaths, home, read_json, write_json
from ddp_play.plan import plan_from_json
from tests.unit.build import plan

# -- what connections say ------------------------------------------------------------------------------

CHANGED_KEY = """Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/ops/.ssh/known_hosts:12
Host key for 10.0.0.5 has changed and you have requested strict checking.
Host key verification failed."""

SAID: list[tuple[str, bool, str, str]] = [
    (CHANGED_KEY, False, "host_key", "ssh-keygen -R 10.0.0.5"),
    ("Failed to connect to the host via ssh: Host key verification failed.", False, "host_key", "ssh-keyscan"),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey).",
        False,
        "credentials",
        "--private-key",
    ),
    (
        "Failed to connect to the host via ssh: ops@10.0.0.5: Permission denied (publickey,password).",
        False,
        "credentials",
        "-u",
    ),
    ("Invalid/incorrect password: Permission denied, please try again.", False, "credentials", "--private-key"),
    ("Missing sudo password", True, "become", "-K"),
    ("Incorrect sudo password", True, "become", "-K"),
    ("sudo: a password is required", True, "become", "NOPASSWD"),
    ("sudo: a terminal is required to read the password; either use the -S option", True, "become", "-K"),
    ("ops is not in the sudoers file.  This incident will be reported.", True, "become", "sudoers"),
    ("Sorry, user ops is not allowed to execute '/bin/sh' as root on h1.", True, "become", "sudoers"),
    ("ssh: Could not resolve hostname h1: Name or service not known", False, "unreachable", "ansible_host"),
    ("ssh: connect to host 10.0.0.5 port 22: Connection refused", False, "unreachable", "ssh 10.0.0.5"),
    ("ssh: connect to host 10.0.0.5 port 22: No route to host", False, "unreachable", "is it up?"),
    ("Connection timed out during banner exchange", False, "unreachable", "is it up?"),
    ("/bin/sh: 1: exec: /usr/libexec/platform-python: not found", True, "python", "install Python 3.9"),
    ("dash: 1: exec: /opt/py/bin/python3.12: not found", True, "python", "ansible_python_interpreter"),
    ("bash: line 1: /usr/libexec/platform-python: No such file or directory", True, "python", "on h1"),
    ("bash: line 1: /opt/python3: cannot execute: No such file or directory", True, "python", "Python"),
    ("SyntaxError: future feature annotations is not defined", True, "python", "Python 3.9"),
    ("PermissionError: [Errno 13] Permission denied: '/var/lib/ddp-play'", True, "other", ""),
    ("OSError: [Errno 28] No space left on device", True, "other", ""),
    ("", False, "unreachable", "is it up?"),
]


@pytest.mark.parametrize(("text", "reached", "kind", "hint"), SAID, ids=[row[0][-48:] for row in SAID])
def test_what_connections_say(text: str, reached: bool, kind: str, hint: str) -> None:
    problem = actions.problem_from_text("h1", text, "10.0.0.5", reached=reached)
    assert (problem["host"], problem["kind"]) == ("h1", kind)
    assert hint in problem["hint"]
    assert "@@@" not in problem["message"]
    assert problem["message"]


def test_our_own_hint_is_kept() -> None:
    problem = actions.problem_from_text("h1", "Python 3.8.1 is too old", "h1", reached=True, hint="3.9 or newer")
    assert (problem["kind"], problem["hint"]) == ("other", "3.9 or newer")


def test_a_long_story_is_cut_at_its_beginning() -> None:
    problem = actions.problem_from_text("h1", "blah\n" * 500 + "the point", "h1")
    assert len(problem["message"]) == 400
    assert problem["message"].endswith("the point")


# -- answers -------------------------------------------------------------------------------------------


def answer(value: dict[str, Any]) -> str:
    return BEGIN + json.dumps(value) + END


@pytest.mark.parametrize("noise", ["", "Welcome to h1!\n", "a {json} line\n" * 3])
def test_an_answer_is_found_in_any_noise(noise: str) -> None:
    assert actions.parse_answer(noise + answer({"a": 1}) + noise, noise) == {"a": 1}


@pytest.mark.parametrize(
    ("stdout", "stderr", "words"),
    [
        ("", "", "the host gave no answer"),
        ("", "warning\nit broke\n", "it broke"),
        ("motd\nno python", "", "no python"),
    ],
)
def test_no_answer(stdout: str, stderr: str, words: str) -> None:
    with pytest.raises(HostNotReady) as caught:
        actions.parse_answer(stdout, stderr)
    assert caught.value.message == words


@pytest.mark.parametrize(("clock", "offset"), [(105.0, 0.0), (90.0, -10.0), (130.0, 20.0), (100.0, 0.0), (110.0, 0.0)])
def test_the_clock_is_compared_with_the_time_of_asking(clock: float, offset: float) -> None:
    text = answer({"clock": clock, "python_version": "3.9.18"})
    facts = actions.parse_facts(text, "", asked=100.0, received=110.0, inventory={"slots": 2})
    assert facts["clock_offset_s"] == offset
    assert facts["inventory"] == {"slots": 2}


@pytest.mark.parametrize("version", ["3.8.20", "2.7.18", "3.6.15"])
def test_old_pythons_are_refused(version: str) -> None:
    text = answer({"clock": 0, "python_version": version})
    with pytest.raises(HostNotReady, match=f"Python {version} is too old") as caught:
        actions.parse_facts(text, "", asked=0, received=0, inventory={})
    assert "3.9" in caught.value.hint


# -- planning ------------------------------------------------------------------------------------------


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
        "resolves_to": [],
        "nccl_conf": False,
        "ephemeral_ports": [32768, 60999],
        "rank_python": {"path": "/usr/bin/python3", "problem": ""},
        "inventory": {"slots": 2},
    }


ROUTE = {"host": "h1", "argv": ["ssh", "h1"], "command": "c", "become_prompt": "", "become_success": ""}
FOUND: dict[str, Any] = {"h1": {"facts": raw_facts("h1"), "route": ROUTE}}
VALUES: dict[str, Any] = {"command": ["true"], "image": None}


def plan_job(values: dict[str, Any] | None = None, found: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"variable_names": (), "secrets": JobSecrets({}), "playbook_dir": "/play"}
    return actions.plan_job(values or VALUES, found or FOUND, **{**defaults, **more})


def test_a_plan_is_written_where_run_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = RunPaths(tmp_path / "night-1")
    paths.create()
    write_json(paths.run, {"id": "night-1", "argv": ["ddp-play"], "job": "given"})
    monkeypatch.setenv(actions.RUN_DIR_ENV, str(paths.root))
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
    monkeypatch.setenv(actions.RUN_DIR_ENV, got["run_dir"])
    assert plan_job()["run_id"] != got["run_id"], "a second job of the playbook is a run of its own"


@pytest.mark.parametrize(
    ("values", "more", "words"),
    [
        ({"command": []}, {}, "ddp_job_command is empty"),
        (VALUES, {"variable_names": ("ddp_job_imgae",)}, "did you mean ddp_job_image?"),
        ({**VALUES, "env": {"NOT_THERE": None}}, {}, "bare key NOT_THERE"),
    ],
)
def test_a_refused_plan_says_so_in_run_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv(actions.RUN_DIR_ENV, str(tmp_path / "r1"))
    with pytest.raises(UsageError, match=words.replace("?", r"\?")) as caught:
        plan_job(values, **more)
    actions.record_failure(caught.value)
    document = read_json(tmp_path / "r1" / "run.json")
    assert (document["status"], document["exit_code"], document["exit_class"]) == ("failed", 64, "usage")
    assert words in document["verdict"]["message"]
    assert not (tmp_path / "r1" / "plan.json").exists()


def test_a_host_that_was_not_discovered_is_named() -> None:
    with pytest.raises(HostNotReady, match="h2: it was not discovered"):
        plan_job(found={**FOUND, "h2": {}})


def test_routes_of_unused_hosts_are_not_kept() -> None:
    problem = {"host": "h2", "kind": "unreachable", "message": "no route", "hint": ""}
    got = plan_job({**VALUES, "hosts": "1.."}, {**FOUND, "h2": {"problem": problem}})
    assert read_json(Path(got["run_dir"], "channels.json"))["routes"] == [ROUTE]
    assert plan_from_json(read_json(Path(got["run_dir"], "plan.json"))).left_out == (("h2", "no route"),)


@pytest.mark.parametrize(
    ("given", "taken"), [("src", "/play/src"), ("/abs", "/abs"), ("~/x", "{home}/x"), ("../up", "/up"), ("", "")]
)
def test_the_source_is_relative_to_the_playbook(given: str, taken: str) -> None:
    got = plan_job({**VALUES, "source": given})
    assert read_json(Path(got["run_dir"], "plan.json"))["source"] == taken.format(home=os.environ["HOME"])


def test_bare_keys_come_from_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    value = "{{ 'kept' }} \"q\"\nsecond " + os.fsdecode(b"\xe9")
    monkeypatch.setenv("FROM_CALLER", value)
    got = plan_job({**VALUES, "env": {"FROM_CALLER": None}})
    made = plan_from_json(read_json(Path(got["run_dir"], "plan.json")))
    assert [var.value for var in made.hosts[0].ranks[0].env if var.name == "FROM_CALLER"] == [value]


# -- cached facts --------------------------------------------------------------------------------------


def test_discovery_leaves_its_facts_for_plan_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(actions.FACTS_ENV, str(tmp_path / "facts.json"))
    rows: dict[str, Any] = {"h1": {"facts": {"a": 1}}, "h2": {"problem": {}}}
    assert actions.cached_facts(["h1", "h2"], rows) == rows
    monkeypatch.setenv(actions.USE_CACHED_ENV, "1")
    assert actions.only_cached()
    assert actions.cached_facts(["h1"], {}) == {"h1": {"facts": {"a": 1}}}
    with pytest.raises(UsageError, match="no cached facts of h2$".rstrip("$")):
        actions.cached_facts(["h1", "h2"], {})


def test_many_unknown_hosts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(actions.FACTS_ENV, str(tmp_path / "facts.json"))
    monkeypatch.setenv(actions.USE_CACHED_ENV, "1")
    with pytest.raises(UsageError, match="no cached facts of h0, h1, h2, h3, h4 and 3 more"):
        actions.cached_facts([f"h{n}" for n in range(8)], {})


def test_without_a_cache_nothing_changes() -> None:
    assert actions.cached_facts(["h1"], {"h1": {}}) == {"h1": {}}


# -- builds, registries -----------------------------------------------------------------------


def test_another_build_of_the_collection_is_refused(tmp_path: Path) -> None:
    for folder in ("plugins/action", "plugins/plugin_utils", "roles/ddp_job", "templates"):
        shutil.copytree(collection_root() / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    plugin = tmp_path / "plugins" / "action" / "plan.py"
    actions.check_same_build(plugin)
    actions.check_same_build(collection_root() / "plugins" / "action" / "plan.py")
    plugin.write_text(plugin.read_text() + "# changed\n")
    with pytest.raises(InternalError, match="which is another build"):
        actions.check_same_build(plugin)


@pytest.mark.parametrize(
    ("image", "server"),
    [
        ("train", "https://index.docker.io/v1/"),
        ("team/train:2", "https://index.docker.io/v1/"),
        ("registry.example.com/team/train:2", "registry.example.com"),
        ("localhost/train", "localhost"),
        ("registry:5000/train", "registry:5000"),
    ],
)
def test_registries(image: str, server: str) -> None:
    assert actions.registry_of(image) == server


@pytest.mark.parametrize(
    ("values", "text"),
    [({}, "1 rank on 1 host (processes), gloo over local, env"), ({"ranks_per_host": 2}, "2 ranks on 1 host")],
)
def test_a_plan_in_one_line(values: dict[str, Any], text: str) -> None:
    assert actions.summarize(plan(**values)).startswith(text)
