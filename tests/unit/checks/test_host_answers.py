"""Answers of hosts to `doctor -i`."""

from __future__ import annotations

import pytest

from ddp_play.ansible.runner import Passwords, PlaybookRequest
from ddp_play.checks.host_answers import answer_of, ask_hosts
from ddp_play.testing import FakePlaybookRunner
from tests.unit.planning.test_host_facts import ANSWER


def test_facts_and_root_rights_of_a_host() -> None:
    answer = answer_of("h1", {**ANSWER, "root_rights": "sudo: a password is required"})
    assert answer.facts is not None
    assert (answer.facts.name, answer.root_problem, answer.problem) == ("h1", "sudo: a password is required", "")


@pytest.mark.parametrize(
    ("said", "problem", "hint"),
    [
        ("Python 3.6.8 is too old\n  -> 3.9 or newer is needed on hosts", "Python 3.6.8 is too old", "3.9 or newer"),
        (
            "Task failed: Failed to connect to the host via ssh: ssh: connect to host h1 port 22: No route to host",
            "Failed to connect to the host via ssh",
            "ssh h1",
        ),
    ],
)
def test_a_host_without_facts_has_the_reason_and_what_helps(said: str, problem: str, hint: str) -> None:
    answer = answer_of("h1", {"problem": said})
    assert answer.facts is None
    assert answer.problem.startswith(problem)
    assert hint in answer.hint
    assert "->" not in answer.problem


def test_all_hosts_are_asked_for_their_facts_and_come_by_name() -> None:
    events = (
        {"event": "runner_on_unreachable", "event_data": {"host": "h2", "res": {"msg": "No route to host"}}},
        {"event": "runner_on_ok", "event_data": {"host": "h1", "res": {"answer": ANSWER}}},
    )
    runner = FakePlaybookRunner(events=events)
    found = ask_hosts(PlaybookRequest("/demo.yml", ("/inv",), "/"), Passwords(), runner)
    assert [(answer.host, answer.facts is None) for answer in found] == [("h1", False), ("h2", True)]
    assert runner.requests[0].environment["DDP_PLAY_SWEEP_VERB"] == "facts"
