"""An interrupted playbook ends with its workers: real ansible-playbook, with a task that is repeated for minutes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_play.ansible.left_workers import PROGRAM
from tests.waiting import wait_until

PLAYBOOK = """
- hosts: localhost
  connection: local
  gather_facts: false
  vars:
    ansible_python_interpreter: "{{{{ ansible_playbook_python }}}}"
  tasks:
    - ansible.builtin.command: touch {path}
      until: false
      retries: 300
      delay: 1
      changed_when: false
"""
# A test that nohup has started inherits an ignored SIGHUP.
RUN = """
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from ddp_play.ansible.runner import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.provisioning import playbook_run
folder = Path(sys.argv[1])
request = PlaybookRequest(playbook=str(folder / "site.yml"), inventory=("localhost,",), cwd=str(folder))
plan = playbook_run.PlaybookPlan(request, ())
class Nobody:
    def __getattr__(self, name):
        return lambda *_: None
report = playbook_run.run_playbook(plan, Passwords(), AnsibleRunner(), Nobody())
print(report.outcome.status)
"""


def playbooks(folder: Path) -> list[int]:
    """Processes of ansible-playbook with this playbook."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if PROGRAM in line and str(folder).encode() in line:
            found.append(int(path.parent.name))
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_goes_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    touched = tmp_path / "touched"
    (tmp_path / "site.yml").write_text(PLAYBOOK.format(path=touched))
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "home"))
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE) as child:
        try:
            wait_until(touched.exists, timeout_s=30, what="the task runs")
            assert len(playbooks(tmp_path)) >= 2, "the worker is a process of its own"
            child.send_signal(number)
            output, _ = child.communicate(timeout=30)
        finally:
            child.kill()
    assert output.split() == [b"canceled"]
    wait_until(lambda: playbooks(tmp_path) == [], timeout_s=10, what="all processes have ended")
