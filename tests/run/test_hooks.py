"""Messages about real runs where nobody expects them: an error of the supervisor, a job that is none, a take-over."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from tests.endings import kill_each
from tests.run.conftest import LOCAL, Play, living
from tests.run.test_restarts import begun, fleet, guard_pid, waiting
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.runner]


def hook(told: Path) -> list[str]:
    """A command that adds each message to a file."""
    return ["sh", "-c", f"{{ cat; echo; }} >> {told}"]


def messages(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []


def ends(told: Path) -> list[dict[str, Any]]:
    return [row for row in messages(told) if row["event"] == "end"]


@contextlib.contextmanager
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook's URL, and what it got."""
    got: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/s3cret-path", got
        finally:
            server.shutdown()
            thread.join()


def test_an_error_of_the_supervisor_itself_is_told(play: Play) -> None:
    """The journal cannot be written any more: the supervisor ends by an error that is no error of the run."""
    told = play.cwd / "told"
    job = waiting(play, lease="10m", restarts=0, hook=hook(told))
    child = play.start("run", job, "-i", fleet(play, "a", "b"), "--name", "night")
    wait_until(lambda: begun(play, "night", 1), timeout_s=60, what="both ranks")
    run = play.home / "runs" / "night"
    events = run / "events.jsonl"
    events.rename(events.with_suffix(".kept"))
    events.mkdir()
    (run / "control" / "stop-now").write_text('{"reason": "the supervisor has something to write"}')
    wait_until(lambda: ends(told), timeout_s=60, what="the message about its end")
    (end,) = ends(told)
    assert (end["status"], end["exit_class"], end["exit_code"]) == ("failed", "internal", 70)
    assert "ddp-play attach night takes over" in end["hint"]
    events.rmdir()
    events.with_suffix(".kept").rename(events)
    child.communicate(timeout=120)
    done = play("attach", "night")
    assert done.code == 130, done.err
    wait_until(lambda: len(ends(told)) == 2, timeout_s=60, what="the message about the run's end")
    assert ends(told)[1]["status"] == "stopped"


@pytest.mark.parametrize("program", ["ddp-play", "ansible-playbook"])
@pytest.mark.parametrize("name", ["command", "env", "registry_password"])
def test_a_mistake_in_a_variable_is_told_as_run_json_has_it(play: Play, program: str, name: str) -> None:
    """Ansible's own error: the job is wrong, not ddp-play."""
    told = play.cwd / "told"
    value = {"A": "{{ no_such_variable }}"} if name == "env" else "{{ no_such_variable }}"
    job = play.job({"command": ["true"], "registry_username": "kim", name: value, "hook": hook(told)})
    done = play(*(["run"] if program == "ddp-play" else []), job, "-i", LOCAL, program=program)
    assert done.code == (64 if program == "ddp-play" else 2), done.out + done.err
    wait_until(lambda: ends(told), timeout_s=60, what="the message")
    (end,) = ends(told)
    (run,) = play.runs()
    document = play.document(run)
    assert (end["run"], end["status"], end["exit_class"], end["exit_code"]) == (run.name, "failed", "usage", 64)
    assert (document["status"], document["exit_class"], document["exit_code"]) == ("failed", "usage", 64)
    assert {row: end[row] for row in ("message", "hint")} == {
        row: document["verdict"][row] for row in ("message", "hint")
    }
    assert end["message"] == f"ddp_job_{name}: 'no_such_variable' is undefined"
    assert "attach" not in end["hint"]


def test_a_plan_that_cannot_be_written_is_of_the_run_that_is_told(play: Play) -> None:
    """The plan is there already, so that another run would have a name of its own."""
    told = play.cwd / "told"
    job = play.job({"command": ["true"], "hook": hook(told)})
    run = play.home / "runs" / "night"
    (run / "channels.json").mkdir(parents=True)
    play.environment["DDP_PLAY_RUN_DIR"] = str(run)
    assert play(job, "-i", LOCAL, program="ansible-playbook").code == 2
    wait_until(lambda: ends(told), timeout_s=60, what="the message")
    (end,) = ends(told)
    assert (run / "plan.json").exists()
    assert (end["run"], end["exit_class"], end["exit_code"]) == ("night", "internal", 70)
    assert end["message"] == play.document(run)["verdict"]["message"]
    assert "attach" not in end["hint"]


@pytest.mark.parametrize("given", [False, True])
def test_a_webhook_after_attach_is_called_with_the_url_of_the_environment(play: Play, given: bool) -> None:
    """The URL is stored nowhere: without it the take-over says so, and the log has what was not told."""
    with receiver() as (url, got):
        variables = play.write("hooks.json", json.dumps({"ddp_job_webhook": url}))
        job = waiting(play, lease="10m")
        play("run", job, "-i", fleet(play, "a", "b"), "-d", "--name", "night", "-e", f"@{variables}")
        wait_until(lambda: begun(play, "night", 1) and got, timeout_s=60, what="both ranks and the first message")
        run = play.home / "runs" / "night"
        kill_each(set(living(str(run))) - {guard_pid(play, "night", host) for host in "ab"})
        if given:
            play.environment["DDP_PLAY_WEBHOOK"] = url
        done = play("stop", "night", "--now")
        assert ("the webhook of run night is not called any more" in done.err) is not given, done.err
        log = run / "hooks.log"
        wait_until(lambda: "end webhook: " in log.read_text(), timeout_s=60, what="the end in the log")
    assert [row["event"] for row in got] == (["start", "end"] if given else ["start"])
    assert ("webhook: not called" in log.read_text()) is not given
    assert play.document(run)["status"] == "stopped"
    texts = [path.read_bytes() for path in run.rglob("*") if path.is_file()]
    assert not [text for text in texts if b"s3cret-path" in text]


def test_what_is_no_url_is_refused_before_anything_happens(play: Play) -> None:
    job = waiting(play, lease="10m")
    play("run", job, "-i", fleet(play, "a", "b"), "-d", "--name", "night")
    wait_until(lambda: begun(play, "night", 1), timeout_s=60, what="both ranks")
    run = play.home / "runs" / "night"
    kill_each(set(living(str(run))) - {guard_pid(play, "night", host) for host in "ab"})
    play.environment["DDP_PLAY_WEBHOOK"] = "chat.example/s3cret-path"
    for words in (("attach", "night"), ("stop", "night")):
        done = play(*words)
        assert done.code == 64
        assert "DDP_PLAY_WEBHOOK is no http or https URL" in done.err
        assert "s3cret" not in done.err + done.out
    assert not (run / "control" / "stop").exists()
    del play.environment["DDP_PLAY_WEBHOOK"]
    assert play("stop", "night", "--now").code == 0
