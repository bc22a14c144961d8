"""Runs through a session: the same runs, sooner; without harm when the session dies or cannot be used."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.run.conftest import LOCAL, Play, alive
from tests.schemas import check
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]
JOB = {"command": ["sh", "-c", "echo color=$COLOR agent=$SSH_AUTH_SOCK mask=$(umask)"], "env": {"COLOR": None}}
PLAIN = {"command": ["sh", "-c", "echo done"]}


def start(play: Play, inventory: Path = LOCAL, *options: str) -> int:
    """A session in the background; its pid."""
    done = play("session", "-i", inventory, "-d", *options)
    assert done.code == 0, done.err
    assert "not kept ready" not in done.out
    return int(done.out.split()[1])


def log(play: Play) -> str:
    """What the newest session has said."""
    return max((play.home / "sessions").glob("*/log"), key=lambda path: path.stat().st_mtime).read_text()


def background(play: Play, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((play.home / "runs" / run / "background.json").read_text())
    return found


def files(play: Play, run: str) -> set[str]:
    """Names of a bundle's files, without those that have a name of one event or run."""
    root = play.home / "runs" / run
    return {str(path.relative_to(root)) for path in root.rglob("*") if "job_events" not in path.parts}


def test_runs_through_a_session_are_like_others(play: Play) -> None:
    job = play.job(JOB)
    play.environment["COLOR"] = "red"
    assert play("run", job, "-i", LOCAL, "--name", "without").code == 0
    session = start(play)
    play.environment["SSH_AUTH_SOCK"] = "/agent/of/first"
    first = play("run", job, "-i", LOCAL, "--name", "first")
    assert (first.code, "agent=/agent/of/first" in first.out) == (0, False)  # the ranks get what the job names
    play.environment["COLOR"] = "blue"
    del play.environment["SSH_AUTH_SOCK"]
    second = play("run", job, "-i", LOCAL, "--name", "second")
    assert "color=red" in first.out
    assert "color=blue" in second.out
    assert [background(play, run).get("session") for run in ("without", "first", "second")] == [None, session, session]
    assert files(play, "first") == files(play, "second") == files(play, "without")
    said = log(play)
    assert said.count("playbook of run") == 2, said
    rows = [play.document(play.home / "runs" / run) for run in ("without", "second")]
    assert rows[0].keys() == rows[1].keys()
    assert play("session", "-i", LOCAL, "--end").code == 0
    wait_until(lambda: not alive(session), what="the session ends")
    assert play("run", job, "-i", LOCAL, "--name", "after").code == 0
    assert "session" not in background(play, "after")


def test_a_killed_session_harms_no_run(play: Play) -> None:
    job = play.job(
        {"command": ["sh", "-c", "echo begun; while [ ! -e end ]; do sleep 0.1; done"], "workdir": str(play.cwd)}
    )
    session = start(play)
    play("run", job, "-i", LOCAL, "-d", "--name", "long")
    rank_log = play.home / "runs" / "long" / "logs" / "rank-0.log"
    wait_until(lambda: rank_log.exists() and rank_log.read_bytes() == b"begun\n")
    os.kill(session, signal.SIGKILL)
    (play.cwd / "end").touch()
    assert play("attach", "long").code == 0
    assert play.document(play.home / "runs" / "long")["status"] == "succeeded"
    next_one = play("run", play.job(PLAIN), "-i", LOCAL, "--name", "next")
    assert next_one.code == 0
    assert "the session of this inventory has died" in next_one.err
    assert "session" not in background(play, "next")
    assert play.left_on_host() == []


def test_a_hung_session_holds_up_no_run(play: Play) -> None:
    session = start(play)
    os.kill(session, signal.SIGSTOP)
    try:
        done = play("run", play.job(PLAIN), "-i", LOCAL, "--name", "patient")
        refused = [play("session", "-i", LOCAL, option) for option in ("--end", "-d")]
    finally:
        os.kill(session, signal.SIGKILL)
    assert done.code == 0
    assert "is not used: it does not answer" in done.err
    assert "session" not in background(play, "patient")
    assert len(play.runs()) == 1
    for answer in refused:
        assert (answer.code, f"does not answer (pid {session})" in answer.err) == (75, True), answer.err
        assert f"kill -9 {session} ends it" in answer.err
    wait_until(lambda: not alive(session), what="the session ends")
    assert start(play) != session


def test_another_python_is_refused_and_another_ansible_gets_its_own(play: Play) -> None:
    start(play)
    play.environment["ANSIBLE_TIMEOUT"] = "7"
    assert play("run", play.job(PLAIN), "-i", LOCAL, "--name", "own").code == 0
    assert "session" in background(play, "own")
    play.environment["PYTHONPATH"] = str(play.cwd)
    done = play("run", play.job(PLAIN), "-i", LOCAL, "--name", "other")
    assert done.code == 0
    assert "is not used: ddp-play, Ansible or Python's settings changed" in done.err
    assert "session" not in background(play, "other")


def test_an_edited_inventory_is_seen(play: Play) -> None:
    text = "ranks: {hosts: {localhost: {ansible_connection: local, ddp_job_env: {WHO: %s}}}}\n"
    inventory = play.write("hosts.yml", text % "before")
    job = play.job({"command": ["sh", "-c", "echo who=$WHO"]})
    start(play, inventory)
    assert "who=before" in play("run", job, "-i", inventory).out
    play.write("hosts.yml", text % "after")
    assert "who=after" in play("run", job, "-i", inventory).out
    play.write("group_vars/all.yml", "ddp_job_env: {WHO: group}\n")
    play.write("hosts.yml", "ranks: {hosts: {localhost: {ansible_connection: local}}}\n")
    assert "who=group" in play("run", job, "-i", inventory).out


def test_an_edited_inventory_of_the_configuration_is_seen(play: Play) -> None:
    """Without -i Ansible's configuration names it, and a kept one was used however old it was."""
    text = "ranks: {hosts: {localhost: {ansible_connection: local, ddp_job_env: {WHO: %s}}}}\n"
    play.write("hosts.yml", text % "before")
    play.write("ansible.cfg", "[defaults]\ninventory = hosts.yml\n")
    job = play.job({"command": ["sh", "-c", "echo who=$WHO"]})
    assert play("session", "-d").code == 0
    first = play("run", job, "--name", "first")
    assert "who=before" in first.out, first.err
    play.write("hosts.yml", text % "after")
    assert "who=after" in play("run", job, "--name", "second").out
    assert all("session" in background(play, run) for run in ("first", "second"))


def test_two_runs_at_once_and_an_idle_end(play: Play) -> None:
    session = start(play, LOCAL, "--idle", "12s")
    job = play.job({"command": ["sh", "-c", "echo begun; sleep 1"], "ranks_per_host": 1})
    both = [play.start("run", job, "-i", LOCAL, "--name", name) for name in ("left", "right")]
    for child in both:
        out, err = child.communicate(timeout=90)
        assert child.returncode == 0, err
        assert "begun" in out
    assert {background(play, name)["session"] for name in ("left", "right")} == {session}
    wait_until(lambda: not alive(session), what="the session ends because it is idle")
    assert "no run for a long time" in log(play)


def test_a_hangup_ends_no_run(play: Play) -> None:
    start(play)
    job = play.job({"command": ["sh", "-c", "while [ ! -e end ]; do sleep 0.1; done"], "workdir": str(play.cwd)})
    play("run", job, "-i", LOCAL, "-d", "--name", "long")
    assert "session" in background(play, "long")
    events = play.home / "runs" / "long" / "events.jsonl"
    wait_until(lambda: events.exists() and '"running"' in events.read_text())
    os.kill(background(play, "long")["pid"], signal.SIGHUP)
    (play.cwd / "end").touch()
    assert play("attach", "long").code == 0
    assert play.document(play.home / "runs" / "long")["status"] == "succeeded"


def test_extra_variables_reach_an_inventory_that_a_plugin_makes(play: Play) -> None:
    play.write("site/1.yml", "ranks: {hosts: {localhost: {ansible_connection: local}}}\n")
    play.write(
        "site/2.yml",
        "plugin: ansible.builtin.constructed\nuse_extra_vars: true\n"
        "compose: {ddp_job_env: \"{'COLOUR': colour | default('none')}\"}\n",
    )
    job = play.job({"command": ["sh", "-c", "echo colour=$COLOUR"]})
    start(play, play.cwd / "site")
    for options, wanted in (((), "none"), (("-e", "colour=red"), "red"), ((), "none")):
        done = play("run", job, "-i", play.cwd / "site", *options)
        assert f"colour={wanted}" in done.out, done.err
    assert log(play).count("playbook of run") == 3


def test_the_limits_of_one_caller_are_not_those_of_the_next(play: Play) -> None:
    start(play)
    job = play.job({"command": ["sh", "-c", "ulimit -H -n"]})
    play.environment["ANSIBLE_TIMEOUT"] = "7"  # an Ansible of its own
    words = ["/bin/sh", "-c", 'ulimit -n 777; exec "$@"', "sh", str(Path(sys.executable).parent / "ddp-play")]
    words += ["run", str(job), "-i", str(LOCAL), "--name", "low"]
    low = subprocess.run(words, cwd=play.cwd, env=play.env(), capture_output=True, text=True, timeout=90, check=False)
    assert "777" in low.stdout, low.stderr
    assert "session" in background(play, "low")
    assert str(resource.getrlimit(resource.RLIMIT_NOFILE)[1]) in play("run", job, "-i", LOCAL).out
    assert log(play).count("playbook of run") == 2


def test_a_stopped_run_ends_its_playbook(play: Play) -> None:
    start(play)
    play("run", play.job({"command": ["sleep", "600"]}), "-i", LOCAL, "-d", "--name", "long")
    events = play.home / "runs" / "long" / "events.jsonl"
    wait_until(lambda: events.exists() and '"running"' in events.read_text())
    assert play("stop", "long").code == 0
    assert play.document(play.home / "runs" / "long")["status"] == "stopped"
    wait_until(lambda: "run long ended" in log(play), what="the background process ends")


def test_a_failing_playbook_has_its_exit_code(play: Play) -> None:
    start(play)
    done = play("run", play.job({"command": ["sh", "-c", "exit 7"]}), "-i", LOCAL)
    assert done.code == 7
    bad = play.write("bad.yml", "- hosts: ranks\n  tasks: [{ansible.builtin.nothing_of_this_name: {}}]\n")
    done = play("run", bad, "-i", LOCAL)
    assert done.code not in (0, 70), done.err
    assert "nothing_of_this_name" in done.err


def test_the_state_of_a_session_for_programs(play: Play) -> None:
    def state(*options: str) -> dict[str, Any]:
        done = play("session", "-i", LOCAL, "--json", *options)
        assert done.code == 0, done.err
        found: dict[str, Any] = json.loads(done.out)
        check("session", found)
        return found

    none = state()
    assert (none["state"], none["pid"], none["runs"]) == ("none", None, [])
    begun = state("-d", "--idle", "5m")
    assert (begun["state"], begun["idle_s"], alive(begun["pid"])) == ("ready", 300.0, True)
    assert (begun["inventory"], Path(begun["socket"]).is_socket()) == ([str(LOCAL)], True)
    job = play.job({"command": ["sh", "-c", "while [ ! -e end ]; do sleep 0.1; done"], "workdir": str(play.cwd)})
    play("run", job, "-i", LOCAL, "-d", "--name", "long")
    busy = state()
    assert (busy["runs"], busy["unused_s"], busy["pid"]) == (["long"], 0.0, begun["pid"])
    (play.cwd / "end").touch()
    wait_until(lambda: state()["runs"] == [], what="the run ends")
    os.kill(begun["pid"], signal.SIGSTOP)
    try:
        silent = state()
    finally:
        os.kill(begun["pid"], signal.SIGCONT)
    assert (silent["state"], silent["pid"], silent["runs"]) == ("silent", begun["pid"], [])
    assert state("--end")["state"] == "none"


@pytest.mark.parametrize("words", [("--end", "-d"), ("--end", "--refresh"), ("--refresh", "-d")])
def test_orders_that_exclude_each_other(play: Play, words: tuple[str, ...]) -> None:
    done = play("session", "-i", LOCAL, *words)
    assert (done.code, "--end, --refresh and --detach exclude each other" in done.err) == (64, True)
