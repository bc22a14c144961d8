"""The fleet from the event of the playbook, and the errors of a playbook that asked nobody."""

from __future__ import annotations

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.checks.check_scope import CheckScope, scope_from_text
from ddp_play.checks.fleet_answers import ask_fleet
from ddp_play.errors import CheckFailed, InternalError
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest(playbook="x.yml", inventory=("inv",), cwd="/")
NETWORK = {"network": "", "addresses": [], "interfaces": [], "problem": "", "hint": ""}
CHECKED = {"hosts": {"h1": {"problem": {"message": "refused", "hint": "sshd"}}}, "network": NETWORK}


def test_the_answer_is_in_the_event_of_the_task() -> None:
    event = {"event": "runner_on_ok", "event_data": {"host": "h1", "res": {"checked": CHECKED}}}
    runner = FakePlaybookRunner(events=({"event": "playbook_on_start"}, event))
    found = ask_fleet(REQUEST, Passwords(), runner, scope=CheckScope("full"))
    assert scope_from_text(runner.requests[0].environment["DDP_PLAY_CHECK_SCOPE"]) == CheckScope("full")
    assert [host.name for host in found.hosts] == ["h1"]


def test_a_playbook_that_failed_or_had_no_hosts() -> None:
    failed = PlaybookOutcome(PlaybookStatus.FAILED, 2, (TaskFailure("h1", "t", "boom"),), "")
    with pytest.raises(CheckFailed, match="boom") as raised:
        ask_fleet(REQUEST, Passwords(), FakePlaybookRunner(outcome=failed), scope=CheckScope())
    assert raised.value.hint.startswith("ansible all -i INVENTORY -m ping ")
    with pytest.raises(InternalError, match="not asked"):
        ask_fleet(REQUEST, Passwords(), FakePlaybookRunner(), scope=CheckScope())
