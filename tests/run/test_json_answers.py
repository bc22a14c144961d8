"""`--json` of every verb that needs no cluster: stdout is one JSON document, and it fits the published schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.run.conftest import LOCAL, Done, Play
from tests.schemas import check
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

TALK = ["sh", "-c", "echo hello from {rank}"]
SLEEP = ["sleep", "300"]


def answer(done: Done, verb: str, code: int = 0) -> Any:
    """The document on stdout, which fits the verb's schema; the command must have ended with this code."""
    assert done.code == code, done.err
    document = json.loads(done.out)
    check(verb, document)
    return document


def error(done: Done, kind: str, code: int) -> Any:
    """The error document on stdout. The message is on stderr too."""
    document = answer(done, "error", code)
    assert (document["exit_class"], document["exit_code"]) == (kind, code)
    assert f"error: {document['message'].splitlines()[0]}" in done.err
    return document


def test_a_run_from_its_plan_to_its_results(play: Play) -> None:
    job = play.job({"command": TALK})
    assert answer(play("plan", job, "-i", LOCAL, "--json"), "plan")["world_size"] == 2
    done = play("run", job, "-i", LOCAL, "--ranks", "all", "--name", "talk", "--json")
    assert answer(done, "run")["status"] == "succeeded"
    assert "localhost:0: hello from 0" in done.err  # ranks' lines make room for the document
    assert answer(play("ps", "--json"), "ps")["runs"][0]["run"] == "talk"
    assert answer(play("ps", "-i", LOCAL, "--json"), "ps")["problems"] == {}
    assert answer(play("results", "--json"), "results")["status"] == "succeeded"
    assert set(answer(play("logs", "--json"), "logs")) == {"0", "1"}
    assert answer(play("report", "talk", "--json"), "report")["run"]["status"] == "succeeded"
    assert answer(play("compare", "talk", "talk", "--json"), "compare")["rows"]
    assert answer(play("attach", "talk", "--json"), "attach")["id"] == "talk"
    assert answer(play("stop", "talk", "--json"), "stop")["status"] == "succeeded"
    assert answer(play("gc", "-i", LOCAL, "--json"), "gc")["removed"] is False
    (used,) = answer(play("usage", "-i", LOCAL, "--by", "run", "--json"), "usage")["groups"]
    assert (used["name"].partition(".")[0], used["attempts"]) == ("talk", 1)
    assert answer(play("gc", "-i", LOCAL, "--yes", "--json"), "gc")["removable"] == []


def test_a_run_that_is_stopped_while_it_is_watched(play: Play) -> None:
    started = play("run", play.job({"command": SLEEP}), "-i", LOCAL, "-d", "--name", "nap", "--json")
    assert answer(started, "run")["run"] == "nap"
    wait_until(lambda: play.document().get("status") == "running", what="a running run")
    answer(play("results", "nap", "--json"), "results", 75)
    assert answer(play("ps", "-i", LOCAL, "--json"), "ps")["on_hosts"]
    watching = play.start("attach", "nap", "--json")
    assert answer(play("stop", "nap", "--now", "--json"), "stop")["status"] == "stopped"
    out, err = watching.communicate(timeout=60)
    assert answer(Done(watching.returncode, out, err), "attach", 130)["exit_class"] == "stopped"


def test_checks(play: Play) -> None:
    assert answer(play("inventory", "check", "-i", LOCAL, "--json"), "inventory-check")["findings"] == []
    bad = play.write("bad.yml", '{"ranks": {"hosts": {"h1": {"ddp_slotz": 2}}}}')
    assert answer(play("inventory", "check", "-i", bad, "--json"), "inventory-check", 64)["exit_class"] == "usage"
    done = play("doctor", "--json")
    assert answer(done, "doctor", done.code)["findings"]


def test_errors(play: Play) -> None:
    error(play("run", "nowhere.yml", "-i", LOCAL, "--json"), "usage", 64)
    error(play("results", "nothing", "--json"), "usage", 64)
    error(play("attach", "nothing", "--json"), "usage", 64)
    error(play("stop", "nothing", "--json"), "usage", 64)
    assert error(play("plan", "--of", "nothing", "--json"), "usage", 64)["hint"]
    document = error(play("ps", "--jsn", "--json"), "usage", 64)
    assert (document["message"], document["hint"]) == (
        "no such option: --jsn (Possible options: --json)",
        "ddp-play ps --help",
    )
    error(play("deprovision", "-i", LOCAL, "--limit", "localhost", "--json"), "usage", 64)
    error(play("reboot", "-i", LOCAL, "--json"), "usage", 64)
    job = play.job({"command": ["true"], "env": {"NOT_THERE": None}})
    refused = answer(play("run", job, "-i", LOCAL, "--json"), "run", 64)
    assert refused["exit_class"] == "usage"
    assert "error" not in play("exec", "nothing", "--", "cat", "--json").out
