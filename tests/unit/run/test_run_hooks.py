"""What a run tells its command and webhook, and that neither can hold it up."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import DdpPlayError, InternalError, Interrupted, UsageError
from ddp_play.run.hook_process import WEBHOOK_ENV
from ddp_play.run.run_hooks import (
    END,
    RESTART,
    START,
    RunHooks,
    checked_url,
    end_by,
    hooks_of,
    message_of,
    tell_refused,
    webhook_problem,
)
from tests.waiting import wait_until

RUN: dict[str, Any] = {
    "job": "train",
    "owner": "kim",
    "world_size": 2,
    "hosts": ["h1", "h2"],
    "attempt": 1,
    "created": 1.0,
    "status": "failed",
    "exit_class": "rank_failed",
    "exit_code": 137,
    "verdict": {"message": "rank 1 on h2 failed first", "rank": 1, "host": "h2", "hint": "", "tail": ["x"]},
    "argv": ["ddp-play", "run"],
}


@pytest.mark.parametrize(
    ("event", "more", "text"),
    [
        (START, {}, "run night started: 2 ranks on 2 hosts"),
        (START, {"world_size": 1, "hosts": ["h1"]}, "run night started: 1 rank on 1 host"),
        (RESTART, {"attempt": 2, "reason": "host h2 was lost"}, "run night starts again, attempt 2: host h2 was lost"),
        (END, {}, "run night failed: rank 1 on h2 failed first"),
    ],
)
def test_a_sentence_for_each_event(tmp_path: Path, event: str, more: dict[str, Any], text: str) -> None:
    assert message_of(event, RunPaths(tmp_path / "night"), RUN, more)["text"] == text


def test_the_end_tells_class_and_cause(tmp_path: Path) -> None:
    message = message_of(END, RunPaths(tmp_path / "night"), RUN, {})
    assert message.pop("text")
    assert message == {
        "event": "end",
        "run": "night",
        "job": "train",
        "owner": "kim",
        "world_size": 2,
        "hosts": ["h1", "h2"],
        "attempt": 1,
        "created": 1.0,
        "bundle": str(tmp_path / "night"),
        "status": "failed",
        "report": str(tmp_path / "night" / "report.html"),
        "exit_class": "rank_failed",
        "exit_code": 137,
        "message": "rank 1 on h2 failed first",
        "hint": "",
        "rank": 1,
        "host": "h2",
    }


def test_a_command_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = RunPaths(tmp_path)
    write_json(paths.run, RUN)
    began = time.monotonic()
    code = f"import pathlib, sys; pathlib.Path({str(tmp_path / 'told')!r}).write_text(sys.stdin.read()); input()"
    RunHooks((sys.executable, "-c", code)).tell(START, paths)
    assert time.monotonic() - began < 10
    wait_until(lambda: "failed" in hooks_log(paths) or "exit code 1" in hooks_log(paths), what="the end of the command")
    assert '"event": "start"' in (tmp_path / "told").read_text()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    RunHooks(("true",)).tell(END, paths)


def test_a_run_on_thousands_of_hosts_is_told_as_well(tmp_path: Path) -> None:
    """The message is larger than what a pipe holds."""
    paths = RunPaths(tmp_path)
    hosts = [f"node{number:04}.rack7.train.cluster.example.com" for number in range(2000)]
    write_json(paths.run, {**RUN, "hosts": hosts})
    code = "import json, sys; print(len(json.load(sys.stdin)['hosts']), 'hosts')"
    RunHooks((sys.executable, "-c", code)).tell(END, paths)
    wait_until(lambda: "exit code" in hooks_log(paths), what="the end of the command")
    assert "2000 hosts" in hooks_log(paths)


def test_a_module_in_the_directory_where_the_process_starts_is_not_its_own(tmp_path: Path) -> None:
    """`python -m` looks there first, and others may have put a json.py there."""
    paths = RunPaths(tmp_path)
    write_json(paths.run, RUN)
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'foreign')!r}, 'w').close()\n")
    RunHooks((sys.executable, "-c", "print('told')")).tell(START, paths)
    wait_until(lambda: "told" in hooks_log(paths) or (tmp_path / "foreign").exists(), what="the end of the command")
    assert not (tmp_path / "foreign").exists()


@pytest.mark.parametrize(
    ("command", "url", "told"),
    [
        ("notify 'a b'", "", RunHooks(("notify", "a b"))),
        (["notify"], "https://chat.example/abc", RunHooks(("notify",), "https://chat.example/abc")),
        (None, None, RunHooks()),
        ("notify 'a", "chat.example/abc", RunHooks()),
        ([["notify"]], "https://chat.example/abc", RunHooks((), "https://chat.example/abc")),
        (5, "", RunHooks()),
    ],
)
def test_a_run_without_a_plan_is_told_by_what_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object, url: object, told: RunHooks
) -> None:
    found: list[tuple[RunHooks, str]] = []
    monkeypatch.setattr(RunHooks, "tell", lambda hooks, event, _paths, **_more: found.append((hooks, event)))
    tell_refused(command, url, RunPaths(tmp_path), UsageError("no such image"))
    assert found == [(told, END)]


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (UsageError("no such image", hint="build it"), ("failed", "usage", 64, "no such image", "build it")),
        (InternalError("ours"), ("failed", "internal", 70, "ours", "")),
        (Interrupted("stopped by you"), ("stopped", "interrupted", 130, "stopped by you", "")),
    ],
)
def test_a_refused_run_is_told_like_its_run_json_even_without_one(
    tmp_path: Path, error: DdpPlayError, end: tuple[object, ...]
) -> None:
    told = tmp_path / "told"
    tell_refused(["sh", "-c", f"cat > {told}.new; mv {told}.new {told}"], "", RunPaths(tmp_path / "full"), error)
    wait_until(told.exists, what="the message")
    message = json.loads(told.read_text())
    assert tuple(message[name] for name in ("status", "exit_class", "exit_code", "message", "hint")) == end


def hooks_log(paths: RunPaths) -> str:
    return paths.hooks_log.read_text() if paths.hooks_log.exists() else ""


def test_nobody_to_tell_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    RunHooks().tell(START, RunPaths(tmp_path))


def test_a_take_over_knows_the_command_and_what_its_environment_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths, url = RunPaths(tmp_path / "night"), "https://chat.example/abc"
    assert hooks_of(paths) == RunHooks()
    paths.create()
    write_json(paths.job, {"hook": ["notify", "x"]})
    assert (hooks_of(paths), webhook_problem(paths)) == (RunHooks(("notify", "x")), "")
    write_json(paths.run, {"webhook": True})
    assert hooks_of(paths) == RunHooks(("notify", "x"), has_lost_url=True)
    assert "the webhook of run night is not called any more" in webhook_problem(paths)
    assert WEBHOOK_ENV in webhook_problem(paths)
    monkeypatch.setenv(WEBHOOK_ENV, url)
    assert (hooks_of(paths), webhook_problem(paths)) == (RunHooks(("notify", "x"), url), "")
    monkeypatch.setenv(WEBHOOK_ENV, "chat.example/abc")
    assert hooks_of(paths).has_lost_url
    with pytest.raises(UsageError, match=WEBHOOK_ENV) as raised:
        webhook_problem(paths)
    assert "abc" not in str(raised.value)


def test_a_webhook_that_nobody_can_call_is_in_the_log(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_json(paths.run, RUN)
    RunHooks(has_lost_url=True).tell(END, paths)
    wait_until(lambda: "webhook: not called" in hooks_log(paths), what="the line in the log")


def test_an_error_of_our_own_is_an_end_whose_text_stays_here(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path / "night")
    more = end_by(KeyError("secret-value"), paths)
    message = message_of(END, paths, {**RUN, "status": "running", "exit_class": None}, more)
    assert (message["status"], message["exit_class"], message["exit_code"]) == ("failed", "internal", 70)
    assert message["text"] == "run night failed: ddp-play itself failed (KeyError)"
    assert "ddp-play attach night takes over" in message["hint"]
    assert "secret-value" not in str(message)
    assert end_by(UsageError("x"), paths) == {}


def test_a_run_whose_directory_is_gone_is_told_as_well(tmp_path: Path) -> None:
    told = tmp_path / "told"
    RunHooks(("sh", "-c", f"cat > {told}")).tell(END, RunPaths(tmp_path / "gone"), message="x")
    wait_until(lambda: told.exists() and '"run": "gone"' in told.read_text(), what="the message")


@pytest.mark.parametrize("url", ["", None, "https://chat.example/services/abc", "http://10.0.0.1:8080"])
def test_urls(url: object) -> None:
    assert checked_url(url) == (url or "")


@pytest.mark.parametrize("url", ["chat.example/abc", "file:///etc/passwd", "https://", "http://[::1", 5])
def test_what_is_no_url_is_refused_without_showing_it(url: object) -> None:
    with pytest.raises(UsageError) as raised:
        checked_url(url)
    assert str(url) not in str(raised.value)


def test_the_url_is_in_no_text_of_the_object() -> None:
    assert "abc" not in repr(RunHooks((), "https://chat.example/abc"))
