"""`stop` while the playbook does not run its job: before it and after it, with and without a session."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]
# Its worker is a process of its own, and would go on for minutes.
SLOW = """
- ansible.builtin.command: touch {began}
  until: false
  retries: 1000
  delay: 1
  changed_when: false
"""


def playbook(play: Play, *, after: bool) -> tuple[Path, Path]:
    """A playbook with a task that does not end, and the file that shows that it has begun."""
    began = play.cwd / "began"
    tasks = "".join(f"    {line}\n" for line in SLOW.format(began=began).strip().splitlines())
    text = f"""
- hosts: ranks
  gather_facts: false
  pre_tasks:
{tasks if not after else "    []"}
  roles:
    - role: ddp.play.ddp_job
      vars: {{ddp_job_command: [echo, trained]}}
  post_tasks:
{tasks if after else "    []"}
"""
    return play.write("slow.yml", text), began


@pytest.mark.parametrize("with_session", [False, True], ids=["alone", "session"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_task_that_does_not_end_is_stopped(play: Play, *, after: bool, with_session: bool) -> None:
    job, began = playbook(play, after=after)
    if with_session:
        assert play("session", "-i", LOCAL, "-d").code == 0
    try:
        assert play("run", job, "-i", LOCAL, "-d", "--name", "slow").code == 0
        wait_until(began.exists, timeout_s=60, what="the task runs")
        stopped = play("stop", "slow", timeout_s=60)
        document = play.document(play.home / "runs" / "slow")
        words = "the job succeeded" if after else "stopped before it started"
        assert (document["status"], document["exit_code"]) == ("stopped", 130), stopped.err
        assert words in document["verdict"]["message"]
        assert [rank["exit_code"] for rank in document["ranks"]] == ([0] * len(document["ranks"]) if after else [])
        assert play.left_on_host() == []
        began.unlink()
        time.sleep(3)  # three times the delay of the task
        assert not began.exists(), "its worker goes on"
    finally:
        play("session", "-i", LOCAL, "--end")
