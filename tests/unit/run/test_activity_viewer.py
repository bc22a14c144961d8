"""The viewer's side of `top` with a fake of Ansible. Its process is in tests/run/test_top.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.plugin_variables import ACTIVITY_ENV
from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import InternalError, UsageError
from ddp_play.run.activity_viewer import ENDED, LOG, LiveActivity, ask_once
from ddp_play.run.fleet_activity import ANSWERS
from ddp_play.testing import FakePlaybookRunner

REQUEST = PlaybookRequest("demo.yml", ("h1,",), "/")


def test_one_answer_of_all_hosts() -> None:
    seen: list[dict[str, Any]] = []

    def work(request: PlaybookRequest, *_: Any) -> None:
        orders = json.loads(request.environment[ACTIVITY_ENV])
        seen.append({**orders, "playbook": Path(request.playbook).name})
        write_json(Path(orders["directory"], ANSWERS), {"hosts": {"h1": {}}, "round": 2})

    found = ask_once(REQUEST, Passwords(), FakePlaybookRunner(work=work))
    assert found["hosts"] == {"h1": {}}
    assert (seen[0]["rounds"], seen[0]["playbook"]) == (2, "top.yml")
    assert not Path(seen[0]["directory"]).exists()


def test_why_no_host_was_asked() -> None:
    outcome = PlaybookOutcome(PlaybookStatus.NOT_STARTED, 4, (), "the inventory is broken")
    with pytest.raises(UsageError, match="the inventory is broken"):
        ask_once(REQUEST, Passwords(), FakePlaybookRunner(outcome=outcome))
    with pytest.raises(InternalError, match="the hosts were not asked"):
        ask_once(REQUEST, Passwords(), FakePlaybookRunner())


class Ended(LiveActivity):
    """One whose process has ended already."""

    def __init__(self, directory: Path) -> None:
        super().__init__(REQUEST, Passwords())
        self._directory = directory
        self._process = type("Process", (), {"poll": lambda _: 1})()


def test_answers_are_given_once_then_the_reason_of_the_end(tmp_path: Path) -> None:
    activity = Ended(tmp_path)
    write_json(tmp_path / ANSWERS, {"hosts": {}, "round": 1})
    assert activity.newest()["round"] == 1
    (tmp_path / LOG).write_text("Traceback\nOSError: no processes\n")
    with pytest.raises(InternalError, match="the process that asks the hosts has ended: OSError: no processes"):
        activity.newest()
    write_json(tmp_path / ENDED, {"kind": "usage", "message": "no such inventory", "hint": "name one"})
    with pytest.raises(UsageError, match="no such inventory"):
        activity.newest()
