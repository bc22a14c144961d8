"""Bad input gets a clear error that says what, where and what to do; nothing is started and nothing is left."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import LOCAL, Play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

GOOD: dict[str, Any] = {"command": ["true"]}

CASES = [
    ("misspelt variable", {**GOOD, "imgae": "x"}, 64, "did you mean ddp_job_image?"),
    ("no command", {}, 64, "ddp_job_command"),
    ("empty command", {"command": []}, 64, "ddp_job_command is empty"),
    ("docker without image", {**GOOD, "runtime": "docker"}, 64, "ddp_job_image is not set"),
    ("pyxis without Slurm", {**GOOD, "runtime": "pyxis", "image": "/i.sqsh"}, 64, "pyxis, a plugin of Slurm"),
    (
        "a login at a registry for pyxis",
        {**GOOD, "runtime": "pyxis", "image": "a", "registry_username": "kim", "registry_password": "s3cret"},
        64,
        "~/.config/enroot/.credentials",
    ),
    ("zero ranks", {**GOOD, "ranks_per_host": 0}, 64, "from 1 up, not 0"),
    ("negative ranks", {**GOOD, "ranks_per_host": -2}, 64, "from 1 up, not -2"),
    ("text for ranks", {**GOOD, "ranks_per_host": "many"}, 64, "'many'"),
    ("source that is not there", {**GOOD, "source": "nowhere"}, 64, "nowhere is not a directory"),
    ("more hosts than there are", {**GOOD, "hosts": 4}, 64, "requires 4 hosts, the play has 1"),
    ("nccl without GPUs", {**GOOD, "backend": "nccl"}, 64, "needs a GPU on every host; none usable on localhost"),
    ("unknown backend", {**GOOD, "backend": "goo"}, 64, "ddp_job_backend"),
    ("unknown init method", {**GOOD, "init_method": "smoke"}, 64, "ddp_job_init_method"),
    ("a port range upside down", {**GOOD, "port_range": "30000-29000"}, 64, "ddp_job_port_range"),
    ("a duration in words", {**GOOD, "grace": "a while"}, 64, "a while"),
    ("a bad name in env", {**GOOD, "env": {"A-B": "c"}}, 64, "'A-B'"),
    ("a secret without value", {**GOOD, "secrets": {"TOKEN": ""}}, 64, "TOKEN has no value"),
]


@pytest.mark.parametrize(("variables", "code", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bad_variables(play: Play, variables: dict[str, Any], code: int, words: str) -> None:
    done = play("run", play.job(variables), "-i", LOCAL)
    assert done.code == code, done.err
    assert words in done.err
    assert "Traceback" not in done.err
    assert play.left_on_host() == []


def test_bad_command_lines(play: Play) -> None:
    job = play.job(GOOD)
    cases: tuple[tuple[list[str | Path], str], ...] = (
        (["run", "nope.yml", "-i", LOCAL], "no playbook nope.yml"),
        (["run", job, "-i", "nowhere"], "no inventory nowhere"),
        (["run", job], "-i was not given"),
        (["run", job, "-i", LOCAL, "--name", "../up"], "cannot be a run name"),
        (["run", job, "-i", LOCAL, "--name", "two words"], "cannot be a run name"),
        (["run", job, "-i", LOCAL, "--name", "--help"], "cannot be a run name"),
        (["logs", "no-such-run"], "no run no-such-run"),
        (["attach", "../../etc"], "cannot be a run name"),
        (["stop", "no-such-run"], "no run no-such-run"),
        (["exec", "no-such-run", "--", "true"], "no run no-such-run"),
        (["results", "no-such-run"], "no run no-such-run"),
    )
    for words, said in cases:
        done = play(*words)
        assert done.code == 64, (words, done.err)
        assert said in done.err
    assert play.runs() == []


def test_a_taken_name(play: Play) -> None:
    job = play.job(GOOD)
    assert play("run", job, "-i", LOCAL, "--name", "mine").code == 0
    done = play("run", job, "-i", LOCAL, "--name", "mine")
    assert done.code == 64
    assert "exists already" in done.err
    assert play.document()["status"] == "succeeded"


def test_no_job_in_the_playbook_or_no_host_in_the_group(play: Play) -> None:
    empty = play.write("empty.yml", "- hosts: ranks\n  gather_facts: false\n  tasks: []\n")
    job = play.job(GOOD)
    cases: tuple[list[str | Path], ...] = (
        ["run", empty, "-i", LOCAL],
        ["run", job, "-i", "localhost,"],
        ["plan", job, "-i", "localhost,"],
    )
    for words in cases:
        done = play(*words)
        assert done.code == 64, done.err
        assert "no play with the role ddp.play.ddp_job matched a host" in done.err
    broken = play.write("broken.yml", "- hosts: [\n")
    assert play("run", broken, "-i", LOCAL).code == 64


def test_a_source_tree_over_the_cap(play: Play) -> None:
    big = play.cwd / "code" / "data"
    big.mkdir(parents=True)
    with (big / "blob").open("wb") as handle:
        handle.truncate(3 << 20)
    done = play("run", play.job({**GOOD, "source": "code", "source_max_mib": 2}), "-i", LOCAL)
    assert done.code == 0, done.err
    assert "warning: ddp_job_source: " in done.err
    assert "largest: data 3 MiB" in done.err


def test_ports_all_taken(play: Play) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = play("run", play.job({**GOOD, "port_range": port}), "-i", LOCAL)
    assert done.code == 75
    assert f"no free port between {port} and {port}" in done.err
    assert play.left_on_host() == []


def local_inventory(play: Play, **variables: str) -> Path:
    """The local inventory with more host variables."""
    lines = "".join(f"      {name}: {value}\n" for name, value in variables.items())
    text = (LOCAL / "hosts.yml").read_text().replace("      ddp_slots: 2\n", "      ddp_slots: 2\n" + lines)
    return play.write("hosts.yml", text)


def test_shared_directory_missing_or_read_only(play: Play) -> None:
    inventory = local_inventory(play, ddp_shared_dir="/no/such/dir")
    done = play("run", play.job(GOOD), "-i", inventory)
    assert done.code == 69
    assert "shared directory /no/such/dir: does not exist" in done.err
    inventory = local_inventory(play, ddp_shared_dir="/proc")
    done = play("run", play.job(GOOD), "-i", inventory)
    assert done.code == 69
    assert "shared directory /proc" in done.err


def test_bad_host_variables(play: Play) -> None:
    done = play("run", play.job(GOOD), "-i", local_inventory(play, ddp_pyton="python3"))
    assert done.code == 64
    assert "did you mean ddp_python?" in done.err
    done = play("run", play.job(GOOD), "-i", local_inventory(play, ddp_interface="eth99"))
    assert done.code == 69
    assert "eth99" in done.err


def test_an_unreachable_host_is_named_and_the_min_is_enough(play: Play) -> None:
    inventory = play.write(
        "two.yml",
        "ranks:\n  hosts:\n    localhost:\n      ansible_connection: local\n      ddp_slots: 1\n"
        "      ansible_python_interpreter: '{{ ansible_playbook_python }}'\n"
        "    gone:\n      ansible_host: 127.0.0.1\n      ansible_port: 9\n",
    )
    done = play("run", play.job(GOOD), "-i", inventory)
    assert done.code == 69
    assert "gone:" in done.err
    assert "Connection refused" in done.err
    done = play("run", play.job({**GOOD, "hosts": "1.."}), "-i", inventory)
    assert done.code == 0, done.err
    assert "left out gone" in done.err


def test_an_inventory_that_is_no_yaml_is_told_by_file_and_line(play: Play) -> None:
    broken = play.write("broken.yml", "ranks:\n  hosts:\n    h1: {ddp_slots: 2\n    h2:\n")
    for words in (("run", play.job({"command": ["true"]})), ("inventory", "check")):
        done = play(*words, "-i", broken)
        assert done.code == 64
        assert f"{broken}:4:" in done.err
