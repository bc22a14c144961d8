"""The job of a playbook before there are hosts: its variables, templated by Ansible, for an engine or an export."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.plugin_variables import DESCRIBE_ENV
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.planning.job import job_from_json
from ddp_play.run.dry_run import run_planning_tasks
from ddp_play.run.source_snapshot import files_to_copy

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.planning.job import Job

# Stands for every host that an engine will give. It is never reached.
PLACE = "allocated-host"
GROUP = "ranks"


def read_job(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner) -> Job:
    """The job of the playbook's first play with the role, as a host of the group `ranks` has it.

    UsageError if there is none, or what is wrong with its variables.
    """
    with tempfile.TemporaryDirectory(prefix="ddp-play-job-") as scratch:
        hosts = Path(scratch, "hosts.yml")
        write_json(hosts, {GROUP: {"hosts": {PLACE: {"ansible_connection": "local"}}}})  # JSON is YAML
        asked = dataclasses.replace(
            request,
            inventory=(*request.inventory, str(hosts)),
            options=(*request.options, "--limit", PLACE),
        )
        paths = RunPaths(Path(scratch, "job"))
        error = run_planning_tasks(asked, passwords, runner, paths, {DESCRIBE_ENV: "1"})
        if error is not None:
            raise error
        job = job_from_json(read_json(paths.job))
        if job.source:
            files_to_copy(job)
        return job
