"""One verb on all hosts: answers and problems by host, and what happens when Ansible reads no inventory."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.errors import DdpPlayError, UsageError
from ddp_play.run.host_sweep import sweep_hosts
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest("/demo.yml", ("/inv",), "/")


def event(kind: str, host: str, **result: Any) -> dict[str, Any]:
    return {"event": kind, "event_data": {"host": host, "res": result}}


def test_every_host_has_its_answer_or_its_problem() -> None:
    runner = FakePlaybookRunner(
        events=(
            event("runner_on_ok", "h1", answer={"left": []}),
            event("runner_on_ok", "h2", answer={"left": "all"}),
            event("runner_on_failed", "h3", msg="no python"),
            event("runner_on_unreachable", "h4"),
            event("playbook_on_stats", ""),
        )
    )
    found = sweep_hosts(REQUEST, Passwords(), runner, "clean", {"h1": {}})
    assert found["h1"] == {"left": []}
    assert found["h2"]["problem"].startswith("it sent an answer to clean with 'all' in place of a list in left")
    assert found["h3"] == {"problem": "no python"}
    assert found["h4"] == {"problem": "failed"}
    assert not runner.private_dirs[0].exists(), "nothing of a sweep stays"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (PlaybookOutcome(PlaybookStatus.CANCELED, 254, (), ""), 130),
        (PlaybookOutcome(PlaybookStatus.FAILED, 2, (TaskFailure("h2", "", "", usage=("wrong", "right")),), ""), 64),
    ],
)
def test_answers_of_some_hosts_are_not_the_answer(outcome: PlaybookOutcome, code: int) -> None:
    runner = FakePlaybookRunner(outcome, events=(event("runner_on_ok", "h1", answer={"left": []}),))
    with pytest.raises(DdpPlayError) as raised:
        sweep_hosts(REQUEST, Passwords(), runner, "clean", {})
    assert raised.value.exit_code == code


def test_an_inventory_that_ansible_cannot_read_is_the_error() -> None:
    failure = TaskFailure("h1", "", "bad inventory")
    runner = FakePlaybookRunner(PlaybookOutcome(PlaybookStatus.FAILED, 4, (failure,), "bad inventory"))
    with pytest.raises(DdpPlayError) as raised:
        sweep_hosts(REQUEST, Passwords(), runner, "runs", {})
    assert raised.value.hint.startswith("ansible all -i INVENTORY -m ping ")


def test_an_inventory_without_hosts_is_an_error() -> None:
    """`gc` said "no leftovers of runs" where it had asked nobody."""
    with pytest.raises(UsageError, match="the inventory has no hosts"):
        sweep_hosts(REQUEST, Passwords(), FakePlaybookRunner(), "runs", {})
