"""What `ddp-play reboot` asks, which variables its options are, and where it stops, with a fake playbook runner."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ddp_play.ansible.runner import PlaybookOutcome, PlaybookStatus, TaskFailure
from ddp_play.cli import console, playbook_runs
from ddp_play.cli.main import app
from ddp_play.testing import FakePlaybookRunner

DONE = PlaybookOutcome(PlaybookStatus.OK, 0, (), "", {"h1": {"ok": 1}, "h2": {"ok": 1}})
BUSY = PlaybookOutcome(
    PlaybookStatus.FAILED,
    2,
    (TaskFailure("h1", "drain | Report a busy host", "h1 is busy"),),
    "",
    {"h1": {"failures": 1}},
)


@pytest.fixture
def site(tmp_path: Path, inventory_read_once: None) -> Path:
    path = tmp_path / "hosts.ini"
    path.write_text("[nfs_server]\nnfs1\n[ranks]\nh1\nh2\n")
    return path


def runner(monkeypatch: pytest.MonkeyPatch, outcome: PlaybookOutcome = DONE) -> FakePlaybookRunner:
    found = FakePlaybookRunner(outcome)
    monkeypatch.setattr(playbook_runs, "AnsibleRunner", lambda: found)
    return found


def limits(used: FakePlaybookRunner) -> list[str]:
    pairs = (itertools.pairwise(request.options) for request in used.requests)
    return [next(value for option, value in pair if option == "--limit") for pair in pairs]


def variables(used: FakePlaybookRunner) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(used.requests[0].options[1])
    return found


@pytest.mark.parametrize(
    ("terminal", "words", "answer", "code", "hosts"),
    [
        (True, (), "y\n", 0, ["h1", "h2", "nfs1"]),
        (True, (), "n\n", 0, []),
        (True, ("--yes",), "", 0, ["h1", "h2", "nfs1"]),
        (False, (), "", 64, []),
        (False, ("--yes", "--serial", "2"), "", 0, ["h1,h2", "nfs1"]),
        (False, ("--yes", "--limit", "h2"), "", 0, ["h2"]),
    ],
)
def test_nothing_is_rebooted_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
    site: Path,
    *,
    terminal: bool,
    words: tuple[str, ...],
    answer: str,
    code: int,
    hosts: list[str],
) -> None:
    used = runner(monkeypatch)
    monkeypatch.setattr(console, "asks", lambda: terminal)
    done = CliRunner().invoke(app, ["reboot", "-i", str(site), *words], input=answer)
    assert (done.exit_code, limits(used)) == (code, hosts), done.output
    if code:
        assert "this would reboot nfs1, h1, h2" in done.output
        assert "--yes" in done.output


def test_its_options_are_variables_of_the_role(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    used = runner(monkeypatch)
    words = ["--yes", "--needed", "--wait", "2h", "--disrupt", "--serial", "3"]
    assert CliRunner().invoke(app, ["reboot", "-i", str(site), *words]).exit_code == 0
    found = variables(used)
    assert found.pop("host_reboot_reason").startswith("reboot by ")
    assert found == {
        "ddp_disrupt": True,
        "ddp_reboot_serial": 3,
        "host_reboot_wait_s": 7200,
        "host_reboot_when": "required",
    }


def test_variables_of_the_inventory_hold_where_no_option_is_given(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    used = runner(monkeypatch)
    assert CliRunner().invoke(app, ["reboot", "-i", str(site), "--yes"]).exit_code == 0
    assert sorted(variables(used)) == ["ddp_reboot_serial", "host_reboot_reason"]


def test_the_first_host_that_fails_ends_it_and_the_command_that_goes_on_is_shown(
    monkeypatch: pytest.MonkeyPatch, site: Path
) -> None:
    used = runner(monkeypatch, BUSY)
    done = CliRunner().invoke(app, ["reboot", "-i", str(site), "--yes", "--wait", "10m"])
    assert (done.exit_code, limits(used)) == (1, ["h1"])
    assert "not touched: h2, nfs1" in done.output
    command = " ".join(done.output.partition("to continue: ")[2].split())
    assert command == f"ddp-play reboot --yes --wait 10m -i {site} --limit h1,h2,nfs1 --serial 1"


def test_check_lists_and_asks_nothing(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    used = runner(monkeypatch)
    assert CliRunner().invoke(app, ["reboot", "-i", str(site), "--check"]).exit_code == 0
    assert ["--check" in request.options for request in used.requests] == [True]


def test_check_and_open_take_all_hosts_at_once(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    for word in ("--check", "--open"):
        used = runner(monkeypatch)
        assert CliRunner().invoke(app, ["reboot", "-i", str(site), word]).exit_code == 0
        assert (len(used.requests), variables(used)["ddp_reboot_serial"]) == (1, 0)
        assert variables(used).get("host_reboot_open", False) is (word == "--open")


@pytest.mark.parametrize(
    ("words", "question"),
    [
        ((), "Reboot 3 hosts now?"),
        (("--limit", "h1"), "Reboot 1 host now?"),
        (("--needed",), "Reboot those of 3 hosts that need it now?"),
    ],
)
def test_the_question_tells_how_many(
    monkeypatch: pytest.MonkeyPatch, site: Path, words: tuple[str, ...], question: str
) -> None:
    runner(monkeypatch)
    monkeypatch.setattr(console, "asks", lambda: True)
    assert question in CliRunner().invoke(app, ["reboot", "-i", str(site), *words], input="n\n").output


def test_a_server_is_rebooted_alone(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    used = runner(monkeypatch)
    assert CliRunner().invoke(app, ["reboot", "-i", str(site), "--yes", "--serial", "9"]).exit_code == 0
    assert limits(used) == ["h1,h2", "nfs1"]


def test_the_number_of_hosts_has_no_effect_in_an_inventory(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    runner(monkeypatch)
    site.write_text(site.read_text() + "[ranks:vars]\nddp_reboot_serial=3\n")
    done = CliRunner().invoke(app, ["reboot", "-i", str(site), "--yes"])
    assert (done.exit_code, "ddp_reboot_serial" in done.output) == (64, True)


def test_a_wait_that_is_no_duration_is_refused(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    used = runner(monkeypatch)
    done = CliRunner().invoke(app, ["reboot", "-i", str(site), "--yes", "--wait", "soon"])
    assert (done.exit_code, used.requests) == (64, [])
    assert "--wait: 'soon' is not a duration" in done.output
