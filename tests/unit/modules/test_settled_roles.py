"""Answers to the questions of several roles, each as its own module gives it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import system_reading
from ansible_collections.ddp.play.plugins.modules import gpu_facts, host_state, rdma_facts, settled_roles
from ansible_collections.ddp.play.plugins.plugin_utils.role_walk import READS

from tests.unit.modules.module_process import FORKER
from tests.unit.modules.stand_in import StandIn, accepted, documented, play

if TYPE_CHECKING:
    from pathlib import Path


def ask(monkeypatch: pytest.MonkeyPatch, *questions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    rows = [{"module": module, "arguments": arguments} for module, arguments in questions]
    return play(monkeypatch, settled_roles, StandIn(questions=rows))


def test_options_are_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(monkeypatch, settled_roles) == documented(settled_roles)


def test_the_questions_of_a_role_are_those_that_have_answers() -> None:
    assert set(settled_roles.ARGUMENTS) == set(READS)


def test_each_answer_is_that_of_its_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    devices: dict[str, Any] = {"sysfs": str(tmp_path), "procfs": str(tmp_path)}
    first: dict[str, Any] = {"files": ["/", "/etc/fstab"]}
    second: dict[str, Any] = {"commands": {"one": ["echo", "1"]}, "timeout_s": "7"}
    found = ask(
        monkeypatch,
        ("ddp.play.host_state", first),
        ("ddp.play.gpu_facts", devices),
        ("ddp.play.rdma_facts", devices),
        ("ddp.play.host_state", second),
    )
    alone = [
        play(monkeypatch, host_state, StandIn(**first)),
        play(monkeypatch, gpu_facts, StandIn(**devices)),
        play(monkeypatch, rdma_facts, StandIn(**devices)),
        play(monkeypatch, host_state, StandIn(**{**second, "timeout_s": 7})),
    ]
    ended = {"failed", "changed"}
    assert found["answers"] == [{name: row[name] for name in row if name not in ended} for row in alone]
    assert (found["failed"], found["changed"]) == (False, False)


def test_the_facts_of_the_system_are_those_of_setup(tmp_path: Path) -> None:
    program = tmp_path / "setup.py"
    program.write_text("from ansible.modules.setup import main\nmain()\n")
    subset = {"gather_subset": system_reading.SUBSET}
    questions = [{"module": "ansible.builtin.setup", "arguments": subset}]
    (found,) = FORKER.answer(settled_roles.__file__, {"questions": questions})["answers"]
    assert found["ansible_facts"] == FORKER.answer(str(program), subset)["ansible_facts"]
    assert found["ansible_facts"]["ansible_distribution"]


def test_what_only_the_first_reading_needs_is_not_imported_for_every_one() -> None:
    program = f"import sys, {settled_roles.__name__}; print('ansible.module_utils.facts' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [({"files": {"a": 1}}, "files"), ({"occupants": "perhaps"}, "occupants"), ({"filez": ["/"]}, "filez")],
)
def test_arguments_that_the_module_would_refuse(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], problem: str
) -> None:
    found = ask(monkeypatch, ("ddp.play.host_state", arguments))
    assert found["failed"]
    assert "ddp.play.host_state" in found["msg"]
    assert problem in found["msg"]


def test_no_questions_no_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch)["answers"] == []
