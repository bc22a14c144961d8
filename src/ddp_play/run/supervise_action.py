"""Second half of the action plugin `run`: carry out the plan in a run directory."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.ansible.plan_action import record_failure
from ddp_play.ansible.plugin_variables import WAIT_ENV
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import RunPaths, read_json, write_bytes, write_json
from ddp_play.engines.route import Route
from ddp_play.errors import DdpPlayError
from ddp_play.planning.job import job_from_json
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run import requeue
from ddp_play.run.attempt_assignment import Assignment, Waiting
from ddp_play.run.restart_loop import RestartLoop
from ddp_play.run.run_hooks import END, RunHooks, end_by
from ddp_play.run.source_snapshot import read_snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_channel import ProcessChannel
    from ddp_play.run.job_check import Answers, Judged
    from ddp_play.run.source_snapshot import Snapshot


def supervise_run(
    run_dir: str,
    *,
    secret_values: dict[str, str],
    registry: dict[str, str],
    become_passwords: dict[str, str],
    ssh_passwords: dict[str, str],
    channels: dict[str, ProcessChannel] | None = None,
    judge: Callable[[Job, Plan, Mapping[str, HostFacts], Answers], Judged] | None = None,
    webhook: str = "",
) -> Outcome:
    """Run the plan in `run_dir`. Passwords are by host; they and the values of secrets are never written.

    `channels`: open ones by host, of discovery. Those of hosts that the plan does not use are closed. `judge`: says
    whether hosts are fit for a job, before anything is started on them. `webhook`: URL, which is never written.
    """
    paths = RunPaths(Path(run_dir))
    plan = plan_from_json(read_json(paths.plan))
    channels = _of_the_plan(channels or {}, {host.name for host in plan.hosts})
    job = job_from_json(read_json(paths.job))
    hooks = RunHooks(job.hook, webhook)
    with _recorded(paths, hooks):
        snapshot = _snapshot(job, paths) if job.source else None
        routes = tuple(Route.from_json(row) for row in read_json(paths.channels)["routes"])
        assignment = Assignment(
            plan,
            routes,
            paths,
            snapshot,
            secret_values,
            registry,
            become_passwords,
            ssh_passwords,
            waiting=_waiting(),
            token=str(read_json(paths.run)["token"]),
            channels=channels,
            judge=partial(judge, job) if judge is not None else None,
            hooks=hooks,
        )
        return RestartLoop(_after_earlier_ones(assignment)).run()


def _after_earlier_ones(assignment: Assignment) -> Assignment:
    """The assignment with its number: a run that was requeued goes on counting its attempts."""
    document = read_json(assignment.paths.run)
    earlier = document.get("attempts") or ()
    last_hosts = frozenset(earlier[-1]["hosts"] if earlier else ())
    attempt = requeue.next_attempt(document)
    return dataclasses.replace(assignment, attempt=attempt, num_ended=len(earlier), last_hosts=last_hosts)


@contextlib.contextmanager
def _recorded(paths: RunPaths, hooks: RunHooks) -> Iterator[None]:
    """Write an error of the run to run.json, and tell the end. After an error of ddp-play itself ranks may go on."""
    if hooks.url:
        write_json(paths.run, {**read_json(paths.run), "webhook": True})  # for who takes over: not the URL
    try:
        yield
    except DdpPlayError as error:
        record_failure(error, paths)
        hooks.tell(END, paths)
        raise
    except Exception as error:
        hooks.tell(END, paths, **end_by(error, paths))
        raise
    if not requeue.is_left(paths):
        hooks.tell(END, paths)


def _waiting() -> Waiting | None:
    wait_s = float(os.environ.get(WAIT_ENV) or 0)
    return Waiting(time.monotonic() + wait_s) if wait_s else None


def _snapshot(job: Job, paths: RunPaths) -> Snapshot:
    """The job's source as it is now; run.json says what it was, and a run that may restart keeps the archive.

    A run that was requeued goes on with the source of its start.
    """
    known = read_json(paths.run).get("source") or {}
    if known and paths.source_archive.exists():
        return read_snapshot(paths.source_archive, known["sha256"])
    snapshot = take_snapshot(job, paths.root, warn=lambda text: Journal(paths.events).emit("warning", message=text))
    source = {"path": job.source, "sha256": snapshot.digest, "files": snapshot.num_files}
    write_json(paths.run, {**read_json(paths.run), "source": source})
    if job.restarts:
        write_bytes(paths.source_archive, memoryview(snapshot.archive))
    return snapshot


def _of_the_plan(channels: dict[str, ProcessChannel], hosts: set[str]) -> dict[str, ProcessChannel]:
    """The channels to these hosts; the others are closed."""
    for name in channels.keys() - hosts:
        channels[name].close()
    return {name: channels[name] for name in channels.keys() & hosts}
