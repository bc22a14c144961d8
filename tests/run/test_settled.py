"""Option `settled` of ddp.play.host_state: conditions on the result of the task, judged by real ansible-playbook."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.run.ansible_playbook import run_playbook

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.runner

# name, conditions, whether the task runs; `there` is in the host's variables
CASES: list[tuple[str, list[str] | None, bool]] = [
    ("holds", ["state.files['/'].type == 'directory'", "there", "state.files | length == wanted"], True),
    ("one_does_not", ["there", "state.files['/'].type == 'file'"], True),
    ("cannot_be_evaluated", ["there", "state.commands.nothing.rc == 0"], True),
    ("undefined", ["no_such_variable == 1"], True),
    ("without_conditions", None, True),
    ("skipped", ["there"], False),
]


def tasks(conditions: list[str] | None, runs: bool) -> list[dict[str, Any]]:
    """The reading as roles have it, and what the role would do on a host that is not settled."""
    arguments = {"files": ["/"]} | ({} if conditions is None else {"settled": conditions})
    return [
        {"ddp.play.host_state": arguments, "register": "state", "when": runs},
        {"ansible.builtin.meta": "end_host", "when": "state | ddp.play.host_state_settled"},
        {"ansible.builtin.debug": {"msg": "to do {{ state.settled | default('none') }}"}},
    ]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each case printed after the judgement; empty if it had ended."""
    folder: Path = tmp_path_factory.mktemp("settled")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    variables = {**local, "there": True, "wanted": "{{ [1] | length }}"}
    hosts = {"all": {"hosts": {name: variables for name, _, _ in CASES}}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts))
    plays = [{"hosts": name, "gather_facts": False, "tasks": tasks(then, runs)} for name, then, runs in CASES]
    (folder / "site.yml").write_text(yaml.safe_dump(plays))
    code, tasks_run = run_playbook(folder, "-i", "hosts.yml", "site.yml")
    assert code == 0, tasks_run
    printed = {name: "" for name, _, _ in CASES}
    for task in tasks_run:
        printed |= {host: row["msg"] for host, row in task["hosts"].items() if row["action"].endswith("debug")}
    return printed


def test_a_role_ends_only_where_every_condition_holds(said: dict[str, str]) -> None:
    assert said == {
        "holds": "",
        "one_does_not": "to do False",
        "cannot_be_evaluated": "to do False",
        "undefined": "to do False",
        "without_conditions": "to do False",
        "skipped": "to do none",
    }
