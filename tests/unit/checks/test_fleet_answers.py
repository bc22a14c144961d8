"""The fleet from the event of the playbook, and the errors of a playbook that asked nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.checks.burn_in_progress import keep
from ddp_play.checks.check_scope import CheckScope, scope_from_text
from ddp_play.checks.fleet_answers import ask_fleet
from ddp_play.errors import CheckFailed, InternalError, Interrupted
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest(playbook="x.yml", inventory=("inv",), cwd="/")
NETWORK = {"network": "", "addresses": [], "interfaces": [], "problem": "", "hint": ""}
BURN_IN = {"rounds": 2, "began_s": [0.0, 9.0], "hosts": {}, "group": {"busbw": [], "problems": []}, "ended": ""}
CHECKED = {"hosts": {"h1": {"problem": {"message": "refused", "hint": "sshd"}}}, "network": NETWORK}


def test_the_answer_is_in_the_event_of_the_task() -> None:
    event = {"event": "runner_on_ok", "event_data": {"host": "h1", "res": {"checked": CHECKED}}}
    runner = FakePlaybookRunner(events=({"event": "playbook_on_start"}, event))
    found = ask_fleet(REQUEST, Passwords(), runner, scope=CheckScope("full"))
    assert scope_from_text(runner.requests[0].environment["DDP_PLAY_CHECK_SCOPE"]) == CheckScope("full")
    assert [host.name for host in found.hosts] == ["h1"]


class Keeping(FakePlaybookRunner):
    """A check with two rounds of a burn-in, of which the result does not arrive."""

    def run(self, request: PlaybookRequest, **options: Any) -> PlaybookOutcome:
        progress = scope_from_text(request.environment["DDP_PLAY_CHECK_SCOPE"]).progress
        keep(Path(progress), {**CHECKED, "burn_in": BURN_IN}, "round 2")
        return super().run(request, **options)


def test_an_interrupted_burn_in_has_what_was_found_and_its_worker_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Path] = []
    monkeypatch.setattr("ddp_play.checks.fleet_answers.end_workers", ended.append)

    canceled = PlaybookOutcome(PlaybookStatus.CANCELED, 254, (), "")
    said: list[str] = []
    scope = CheckScope("burn-in")
    found = ask_fleet(REQUEST, Passwords(), Keeping(outcome=canceled), scope=scope, say=said.append)
    assert (found.burn_in or {})["ended"] == "interrupted"
    assert said == ["round 2"]
    assert [path.name for path in ended] == ["ansible"]
    with pytest.raises(Interrupted):
        ask_fleet(REQUEST, Passwords(), FakePlaybookRunner(outcome=canceled), scope=scope, say=said.append)
    assert len(ended) == 2


def test_a_burn_in_whose_check_fails_has_the_rounds_that_it_had() -> None:
    failed = PlaybookOutcome(PlaybookStatus.FAILED, 2, (TaskFailure("h1", "t", "boom"),), "")
    found = ask_fleet(REQUEST, Passwords(), Keeping(outcome=failed), scope=CheckScope("burn-in"))
    assert found.burn_in is not None
    assert found.burn_in["rounds"] == 2
    assert found.burn_in["ended"].startswith("the check failed (")
    assert "boom" in found.burn_in["ended"]


def test_a_playbook_that_failed_or_had_no_hosts() -> None:
    failed = PlaybookOutcome(PlaybookStatus.FAILED, 2, (TaskFailure("h1", "t", "boom"),), "")
    with pytest.raises(CheckFailed, match="boom") as raised:
        ask_fleet(REQUEST, Passwords(), FakePlaybookRunner(outcome=failed), scope=CheckScope())
    assert raised.value.hint.startswith("ansible all -i INVENTORY -m ping ")
    with pytest.raises(InternalError, match="not asked"):
        ask_fleet(REQUEST, Passwords(), FakePlaybookRunner(), scope=CheckScope())
