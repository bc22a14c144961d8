"""The plan as a document: back from JSON unchanged, and each rank's command as a person would type it."""

from __future__ import annotations

import json

import pytest

from ddp_play.planning.plan_document import command_line, plan_from_json
from tests.unit.planning.test_planner import WHOLE, as_text, whole


@pytest.mark.parametrize("name", WHOLE)
def test_plans_survive_json(name: str) -> None:
    made = whole(name)
    assert plan_from_json(json.loads(as_text(made))) == made


def test_the_command_line_is_what_a_person_would_type() -> None:
    made = whole("docker-3-hosts-ethernet")
    assert command_line(made.hosts[0].ranks[0]).startswith("docker run --name 'ddp-<run_key>-a<attempt>-r0' --label")
    assert command_line(whole("process-1-host").hosts[0].ranks[0]) == "python -m trainer train"
