"""What provision asks on a terminal before it changes a host, with a fake playbook runner."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ddp_play.ansible.runner import PlaybookOutcome, PlaybookStatus, TaskFailure
from ddp_play.cli import acceptance, console, playbook_runs
from ddp_play.cli.main import app
from ddp_play.testing import FakePlaybookRunner

ROW = {"kind": "restart", "what": "unit docker.service", "whose": "theirs"}
EVENT = {
    "event": "runner_on_ok",
    "event_data": {
        "host": "h1",
        "role": "base_os",
        "task_action": "ddp.play.unit_start",
        "res": {"changed": True, "ddp_changes": [ROW]},
    },
}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> FakePlaybookRunner:
    found = FakePlaybookRunner(PlaybookOutcome(PlaybookStatus.OK, 0, (), "", {"h1": {"ok": 1}}), (EVENT,))
    monkeypatch.setattr(playbook_runs, "AnsibleRunner", lambda: found)
    return found


@pytest.fixture
def site(tmp_path: Path, inventory_read_once: None) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text("[ranks]\nh1\nh2\n")
    return path


def checked(runner: FakePlaybookRunner) -> list[bool]:
    return ["--check" in request.options for request in runner.requests]


PROVISION, DEPROVISION = ("provision",), ("deprovision", "--limit", "h1")


@pytest.mark.parametrize(
    ("verb", "terminal", "words", "answer", "runs"),
    [
        (PROVISION, True, (), "y\n", [True, False]),
        (PROVISION, True, (), "n\n", [True]),
        (PROVISION, True, ("--yes",), "", [False]),
        (PROVISION, True, ("--json",), "", [False]),
        (PROVISION, True, ("--check",), "", [True]),
        (PROVISION, False, (), "", [False]),
        (PROVISION, False, ("--serial", "1"), "", [False, False]),
        (PROVISION, True, ("--canary",), "y\n", [True, False, False]),
        (PROVISION, False, ("--check", "--serial", "1"), "", [True]),
        (DEPROVISION, True, (), "y\n", [True, False]),
        (DEPROVISION, True, (), "n\n", [True]),
        (DEPROVISION, True, ("--yes",), "", [False]),
        (DEPROVISION, True, ("--check",), "", [True]),
        (DEPROVISION, False, ("--check", "--yes"), "", [True]),
        (DEPROVISION, False, ("--check", "--json"), "", [True]),
        # A removal is never done unasked.
        (DEPROVISION, True, ("--json",), "", []),
        (DEPROVISION, False, (), "", []),
    ],
)
def test_a_terminal_sees_the_changes_first_and_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    runner: FakePlaybookRunner,
    site: Path,
    *,
    verb: tuple[str, ...],
    terminal: bool,
    words: tuple[str, ...],
    answer: str,
    runs: list[bool],
) -> None:
    monkeypatch.setattr(console, "asks", lambda: terminal)
    given = [verb[0], "-i", str(site), "--tags", "base_os", *verb[1:], *words]
    done = CliRunner().invoke(app, given, input=answer)
    assert (done.exit_code, checked(runner)) == (0 if runs else 64, runs), done.output
    question = "Provision 2 hosts now?" if verb is PROVISION else "Deprovision 1 host now?"
    assert (question in done.stderr) is bool(answer)
    assert ("--check lists what would be removed" in done.stderr) is (not runs)


NEW = {"event": "runner_on_ok", "event_data": {"host": "h2", "role": "base_os", "res": {"is_new": True}}}


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The new hosts of each acceptance, in place of the check itself."""
    found: list[tuple[str, ...]] = []
    monkeypatch.setattr(acceptance.Acceptance, "__call__", lambda _self, new: found.append(new))
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--yes",), [("h2",)]),
        (("--serial", "1"), [("h2",)]),  # once, after the last batch
        (("--json",), [("h2",)]),
        (("--no-check",), []),
        (("--tags", "base_os"), []),
        (("--check",), []),
    ],
)
def test_new_hosts_are_checked_at_the_end(
    runner: FakePlaybookRunner,
    site: Path,
    checks: list[tuple[str, ...]],
    words: tuple[str, ...],
    expected: list[tuple[str, ...]],
) -> None:
    runner.events = (EVENT, NEW)
    done = CliRunner().invoke(app, ["provision", "-i", str(site), *words])
    assert (done.exit_code, checks) == (0, expected), done.output


def test_disrupt_sets_one_variable_that_the_users_own_override(runner: FakePlaybookRunner, site: Path) -> None:
    mine = "ddp_disrupt=false"
    given = ["provision", "-i", str(site), "--tags", "base_os", "--yes", "--disrupt", "-e", mine]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    options = runner.requests[0].options
    values = [value for option, value in itertools.pairwise(options) if option == "--extra-vars"]
    assert values == ['{"ddp_disrupt": true}', mine]


@pytest.mark.parametrize(("words", "said"), [((), True), (("--json",), False)])
def test_deprovision_says_that_it_leaves_what_belongs_to_users(
    runner: FakePlaybookRunner, site: Path, words: tuple[str, ...], said: bool
) -> None:
    given = ["deprovision", "-i", str(site), "--limit", "h1", "--tags", "base_os", "--yes", *words]
    done = CliRunner().invoke(app, given)
    assert (done.exit_code, len(runner.requests)) == (0, 1), done.output
    assert ("~/.local/state/ddp-play/host" in done.stderr) is said


@pytest.mark.parametrize(("reached", "runs"), [(True, [True, False]), (False, [True])])
def test_an_unreachable_host_does_not_forbid_it_either(
    monkeypatch: pytest.MonkeyPatch, site: Path, *, reached: bool, runs: list[bool]
) -> None:
    """Unless no host was reached."""
    failure = TaskFailure("h2", "Read", "no route", unreachable=True)
    lost = {
        "event": "runner_on_unreachable",
        "event_data": {"host": "h2", "role": "base_os", "res": {"msg": "no route"}},
    }
    events = (*((EVENT,) if reached else ()), lost)
    found = FakePlaybookRunner(
        PlaybookOutcome(PlaybookStatus.UNREACHABLE, 4, (failure,), "", {"h2": {"dark": 1}}), events
    )
    monkeypatch.setattr(playbook_runs, "AnsibleRunner", lambda: found)
    monkeypatch.setattr(console, "asks", lambda: True)
    done = CliRunner().invoke(app, ["provision", "-i", str(site), "--tags", "base_os"], input="y\n")
    assert (done.exit_code, checked(found)) == (69, runs), done.output


@pytest.mark.parametrize(("answer", "code", "runs"), [("y\n", 1, [True, False]), ("n\n", 1, [True])])
def test_a_failed_check_does_not_forbid_the_provisioning(
    monkeypatch: pytest.MonkeyPatch, site: Path, answer: str, code: int, runs: list[bool]
) -> None:
    failure = TaskFailure("h1", "Install", "python3-apt must be installed", unreachable=False)
    failing = FakePlaybookRunner(PlaybookOutcome(PlaybookStatus.FAILED, 2, (failure,), "", {"h1": {"failures": 1}}))
    monkeypatch.setattr(playbook_runs, "AnsibleRunner", lambda: failing)
    monkeypatch.setattr(console, "asks", lambda: True)
    done = CliRunner().invoke(app, ["provision", "-i", str(site), "--tags", "base_os"], input=answer)
    assert (done.exit_code, checked(failing)) == (code, runs), done.output
    assert "although the check failed" in done.output
