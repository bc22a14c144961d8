"""Execution of playbooks: the command line, the outcome, and no secrets left in files."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.ansible.command_file import MASK
from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus
from ddp_play.errors import UsageError


def request(tmp_path: Path, **more: Any) -> PlaybookRequest:
    (tmp_path / "p.yml").touch()
    return PlaybookRequest(**{"playbook": str(tmp_path / "p.yml"), "inventory": ("h1,",), "cwd": str(tmp_path), **more})


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, ["-i", "h1,"]),
        ({"inventory": ()}, []),
        ({"inventory": ("/a", "/b")}, ["-i", "/a", "-i", "/b"]),
        ({"options": ("--limit", "h 1")}, ["-i", "h1,", "--limit", "h 1"]),
        ({"tags": ("a", "b"), "skip_tags": ("c",)}, ["-i", "h1,", "--tags", "a,b", "--skip-tags", "c"]),
    ],
)
def test_command_lines(tmp_path: Path, more: dict[str, Any], words: list[str]) -> None:
    assert request(tmp_path, **more).command_line() == words


def test_requests_survive_json(tmp_path: Path) -> None:
    made = request(tmp_path, options=("--become",), environment={"A": "1"})
    assert PlaybookRequest.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.fixture
def ansible(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stands for ansible_runner.run: what it was given, what it will do."""
    fake: dict[str, Any] = {"events": [], "status": "successful", "rc": 0, "stdout": ""}

    def run(**given: Any) -> Any:
        fake["given"] = given
        words = given["cmdline"].split()
        files = {a: Path(b) for a, b in itertools.pairwise(words) if a.endswith("-password-file")}
        fake["passwords"] = {a: (path.read_text(), path.stat().st_mode & 0o777, path) for a, path in files.items()}
        artifacts = Path(given["private_data_dir"], "artifacts", "1")
        artifacts.mkdir(parents=True)
        env = {**os.environ, **given["envvars"]}
        (artifacts / "command").write_text(json.dumps({"command": words, "env": env}))
        (artifacts / "stdout").write_text(fake["stdout"])
        fake.get("work", list)()
        for event in fake["events"]:
            given["event_handler"](event)
        text = SimpleNamespace(read=(artifacts / "stdout").read_text)
        return SimpleNamespace(status=fake["status"], rc=fake["rc"], stdout=text)

    monkeypatch.setattr("ansible_runner.run", run)
    return fake


def run(tmp_path: Path, passwords: Passwords = Passwords(), **more: Any) -> PlaybookOutcome:  # noqa: B008 - frozen
    return AnsibleRunner().run(
        request(tmp_path, **more), private_dir=tmp_path / "ansible", passwords=passwords, on_event=lambda _: None
    )


def failed(host: str, *, kind: str = "runner_on_failed", **data: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "task": "T", "res": {"msg": "no"}, **data}}


UNREACHABLE = failed("h1", kind="runner_on_unreachable")
ENDS: list[tuple[str, dict[str, Any], PlaybookStatus]] = [
    ("well", {}, PlaybookStatus.OK),
    ("a task failed", {"status": "failed", "rc": 2, "events": [failed("h1")]}, PlaybookStatus.FAILED),
    ("nobody answers", {"status": "failed", "rc": 4, "events": [UNREACHABLE]}, PlaybookStatus.UNREACHABLE),
    ("both", {"status": "failed", "rc": 2, "events": [UNREACHABLE, failed("h2")]}, PlaybookStatus.FAILED),
    ("a syntax error", {"status": "failed", "rc": 4, "stdout": "ERROR!\n"}, PlaybookStatus.NOT_STARTED),
    ("canceled", {"status": "canceled", "rc": 254}, PlaybookStatus.CANCELED),
    ("canceled, said otherwise", {"status": "failed", "rc": 254}, PlaybookStatus.CANCELED),
]


@pytest.mark.parametrize(("end", "status"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_the_outcome_from_status_rc_and_failures(
    tmp_path: Path, ansible: dict[str, Any], end: dict[str, Any], status: PlaybookStatus
) -> None:
    ansible.update(end)
    outcome = run(tmp_path)
    assert outcome.status is status
    assert outcome.rc == end.get("rc", 0)
    assert (outcome.error("/log") is None) is (status is PlaybookStatus.OK)
    assert outcome.stdout_tail == ("ERROR!" if status is PlaybookStatus.NOT_STARTED else "")


@pytest.mark.parametrize(
    ("log", "remedy", "hint"),
    [
        ("", "", ""),
        ("/log", "", "whole output: /log"),
        ("", "ansible -m ping", "ansible -m ping"),
        ("/log", "ansible -m ping", "ansible -m ping; whole output: /log"),
    ],
)
@pytest.mark.parametrize("status", [PlaybookStatus.FAILED, PlaybookStatus.UNREACHABLE, PlaybookStatus.NOT_STARTED])
def test_the_hint_of_an_error_is_the_remedy_and_the_log(
    status: PlaybookStatus, log: str, remedy: str, hint: str
) -> None:
    error = PlaybookOutcome(status, 4, (), "").error(log, remedy=remedy)
    assert error is not None
    assert error.hint == hint


def test_failures_are_kept_unless_they_are_ignored(tmp_path: Path, ansible: dict[str, Any]) -> None:
    ansible["events"] = [
        failed("h1"),
        failed("h2", ignore_errors=True),
        failed("h3", res={"stderr": "broken"}),
        failed("h4", res={}),
        {"event": "runner_on_ok", "event_data": {"host": "h5"}},
        {},
    ]
    found = [(row.host, row.message) for row in run(tmp_path).failures]
    assert found == [("h1", "no"), ("h3", "broken"), ("h4", "failed")]


@pytest.mark.runner
def test_stats_by_host(tmp_path: Path) -> None:
    """Of a real playbook that failed: ansible-runner itself has none where its events get no files."""
    play = {"hosts": "all", "connection": "local", "gather_facts": False}
    tasks = [
        {"ansible.builtin.debug": {"msg": "x"}},
        {"ansible.builtin.fail": {}, "when": "inventory_hostname == 'h2'"},
    ]
    book = tmp_path / "two.yml"
    book.write_text(json.dumps([{**play, "tasks": tasks}]))
    outcome = run(tmp_path, playbook=str(book), inventory=("h1,h2,",))
    assert outcome.status is PlaybookStatus.FAILED
    assert outcome.stats == {"h1": {"ok": 1, "skipped": 1}, "h2": {"ok": 1, "failures": 1}}


def test_the_environment_is_needed_but_not_stored(
    tmp_path: Path, ansible: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    ansible["events"] = [{"event": "playbook_on_start"}]
    run(tmp_path, environment={"MINE": "hunter3"})
    assert ansible["given"]["envvars"]["MINE"] == "hunter3"
    stored = json.loads((tmp_path / "ansible" / "artifacts" / "1" / "command").read_text())
    assert "MY_TOKEN" in stored["env"], "names tell what was there"
    assert set(stored["env"].values()) == {MASK}
    assert "hunter" not in "".join(path.read_text() for path in (tmp_path / "ansible").rglob("*") if path.is_file())


def test_passwords_are_files_in_memory_until_the_end(tmp_path: Path, ansible: dict[str, Any]) -> None:
    run(tmp_path, Passwords(connection="c 1", become="b'2"))
    got = ansible["passwords"]
    assert {option: (text, mode) for option, (text, mode, _) in got.items()} == {
        "--connection-password-file": ("c 1\n", 0o600),
        "--become-password-file": ("b'2\n", 0o600),
    }
    assert not any(path.exists() or path.parent.exists() for _, _, path in got.values())
    assert "c 1" not in ansible["given"]["cmdline"]


def test_without_passwords_there_are_no_files(tmp_path: Path, ansible: dict[str, Any]) -> None:
    run(tmp_path)
    assert ansible["passwords"] == {}


def test_the_handlers_of_signals_are_restored(tmp_path: Path, ansible: dict[str, Any]) -> None:
    """ansible-runner sets its own, which only end a playbook."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ansible["work"] = lambda: [signal.signal(number, lambda *_: None) for number in before]
    run(tmp_path)
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_missing_inventory_is_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no inventory nowhere"):
        run(tmp_path, inventory=("nowhere",))
