"""Restart loop of a run: one attempt, the decision what follows it, fencing, the next attempt.

The reasons for these steps: docs/decisions/0002-attempts.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import random
import time
from typing import IO, TYPE_CHECKING, Any

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import Busy, DdpPlayError, HostNotReady, Interrupted, NameTaken, SlotsTaken
from ddp_play.planning.job import job_from_json
from ddp_play.planning.next_attempt import Fleet
from ddp_play.run.fencing import fence, reclaim
from ddp_play.run.host_spec import run_paths
from ddp_play.run.restart_assignment import Following, RunSoFar, assign
from ddp_play.run.restart_decision import End, Policy, Restart, next_step
from ddp_play.run.stop_requests import Orders
from ddp_play.run.supervisor import NotStarted, Supervisor
from ddp_play.run.uncollected_artifacts import Rescue

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.restart_decision import Ended
    from ddp_play.run.supervisor import Collected

# At the end of a run: how long hosts that were lost on the way get to answer once more.
LAST_CALL_S = 5.0
# How often a run that waits for slots looks for them.
SLOTS_TURN_S = 5.0


class Attempts:
    """All attempts of one run. It holds the run's lock, so that no second process supervises the same run."""

    def __init__(self, given: Assignment) -> None:
        self.given = given
        self.paths = given.paths
        self.bundle = Bundle(given.paths)
        self.journal = Journal(given.paths.events)
        self.orders = Orders(given.paths)
        document = read_json(given.paths.run)
        self.history: list[dict[str, Any]] = list(document.get("attempts") or ())
        self._began = time.monotonic()
        self._waits_for = ""
        self._refused: dict[str, str] = {}  # hosts that a restart could not use, with what they said
        self._lost: dict[int, dict[str, str]] = {}  # attempt -> its hosts that could not be cleaned, with the reason
        self._kept: dict[str, list[str]] = {}  # host -> files of earlier attempts that could not all be collected

    def run(self) -> Outcome:
        """From an unstarted plan to the run's outcome."""
        return self._hold(Supervisor.run)

    def take_over(self) -> Outcome:
        """From the state that the hosts report to the run's outcome: its controller died."""
        return self._hold(Supervisor.take_over)

    def _hold(self, begin: Callable[[Supervisor], Ended | NotStarted]) -> Outcome:
        with lock(self.paths), self.orders.listening():
            while True:
                try:
                    outcome = self._attempt(begin)
                except (OSError, ValueError, KeyError) as error:  # ours: of the hosts we know nothing then
                    self._name_shared(error)
                    raise
                if outcome is not None:
                    self._last_call(outcome.left)
                    return outcome
                begin = Supervisor.run

    def _attempt(self, begin: Callable[[Supervisor], Ended | NotStarted]) -> Outcome | None:
        """One attempt; its outcome when it was the last."""
        supervisor = Supervisor(self.given, self.orders)
        ended = begin(supervisor)
        if isinstance(ended, NotStarted):
            self._begin_with(self._another_try(ended))
            return None
        if ended.disk_full:
            return supervisor.leave_on_hosts(ended.outcome)
        step = self._decide(ended)
        self._record(ended.outcome, step)
        collected = supervisor.collect_and_clean(ended, goes_on=isinstance(step, Following))
        if isinstance(step, End) or collected.disk_full:
            return collected.outcome
        self._go_on(collected, step)
        return None

    def _keep(self, kept: dict[str, list[str]]) -> None:
        for host, rows in kept.items():
            self._keep_on(host, rows)

    def _keep_on(self, host: str, rows: list[str]) -> None:
        self._kept.setdefault(host, []).extend(rows)

    def _go_on(self, collected: Collected, following: Following) -> None:
        """From an ended attempt to the one that follows it."""
        try:
            self._make_sure(collected, following)
        except DdpPlayError:  # stopped while it waited, or of some host we shall never know
            outcome, kept = collected.outcome, collected.kept
            left = {host: rows for host, rows in outcome.left.items() if host not in kept}
            self._lost[self.given.attempt] = {host: "; ".join(rows) for host, rows in left.items()}
            self._keep(kept)
            self._give_up(unsafe=tuple(sorted(outcome.left)), missing=outcome.missing)
            raise
        self._keep(collected.kept)
        self.bundle.archive(self.given.attempt, collected.outcome.to_json())
        self._begin_with(following.given)

    def _another_try(self, tried: NotStarted) -> Assignment:
        """Another try, on other hosts or when slots may be free.

        Otherwise the error is raised, after earlier attempts' files were collected or listed in run.json.
        """
        try:
            following = self._elsewhere(tried.error) or self._later(tried)
            if following is None:
                raise tried.error
            fence(self.given, tried.unfenced, self.orders, self.journal, keep=self._keep_on)
        except DdpPlayError:
            if self.given.continues or tried.signalled or self.history:
                self._give_up(unsafe=tuple(sorted(tried.unfenced)))
            raise
        return following

    def _later(self, tried: NotStarted) -> Assignment | None:
        """The same hosts again after a pause: slots may be free then. A number that hosts know is not used twice."""
        if not self._may_wait(tried.error):
            return None
        self._wait_a_moment(tried.error)
        return dataclasses.replace(self.given, attempt=self.given.attempt + tried.prepared)

    def _give_up(self, *, unsafe: tuple[str, ...], missing: tuple[dict[str, Any], ...] = ()) -> None:
        """No further attempt: collect the files that earlier ones left on hosts, or list in run.json where they are."""
        rescue = Rescue(self.given, self.bundle, self.orders, self.journal)
        rescue.run(unsafe=unsafe)
        self._last_call(rescue.left)
        self.bundle.update_run(missing=[*missing, *rescue.missing], left_behind=rescue.left)

    def _name_shared(self, error: Exception) -> None:
        """Where earlier attempts have run, what they share is still there: people must be able to find it."""
        host = next((host for host in self.given.plan.hosts if host.shared_dir), None)
        if self.history and host is not None:
            rows = [f"{path}: not collected, {error!r} here" for path in run_paths(host, self.given.run_key)]
            with contextlib.suppress(OSError):
                self.bundle.update_run(left_behind={host.name: rows})

    def _begin_with(self, given: Assignment) -> None:
        self.given = given
        write_json(self.paths.plan, given.plan.to_json(), indent=None if given.plan.world_size > 64 else 2)
        hosts = [host.name for host in given.plan.hosts]
        self.bundle.update_run(hosts=hosts, world_size=given.plan.world_size, attempt=given.attempt)

    # -- waiting for slots ---------------------------------------------------------------------------
    def _may_wait(self, error: DdpPlayError) -> bool:
        """Was waiting for slots requested, and is there time left?"""
        requested = not self.given.continues and isinstance(error, SlotsTaken)
        return requested and time.monotonic() - self._began + SLOTS_TURN_S < self.given.wait_s

    def _wait_a_moment(self, error: DdpPlayError) -> None:
        if error.message != self._waits_for:
            self._waits_for = error.message
            self.journal.emit("waiting", reason=error.message)
        self.bundle.update_run(status=str(RunStatus.WAITING))
        until = time.monotonic() + SLOTS_TURN_S * random.uniform(0.5, 1.0)  # noqa: S311 - two that wait must not meet
        while time.monotonic() < until:
            if self.orders.stop() is not None:
                raise Interrupted("stopped while it waited for slots")
            time.sleep(0.1)

    # -- deciding ------------------------------------------------------------------------------------
    def _decide(self, ended: Ended) -> Following | End:
        """What follows this attempt. Reads the bundle, changes nothing."""
        job = read_json(self.paths.root / "job.json")
        policy = Policy(int(job.get("restarts", 0)), tuple(job.get("restart_exit_codes") or ()))
        step = next_step(ended, policy, tuple(row["fault"] for row in self.history if row.get("fault")))
        return step if isinstance(step, End) else assign(step, self.given, self._so_far(), num_ended=ended.ordinal)

    def _elsewhere(self, error: DdpPlayError) -> Assignment | None:
        """Another try with other hosts, where this was to be a restart and some of its hosts refused."""
        refused = isinstance(error, HostNotReady | SlotsTaken | NameTaken)
        if not self.given.continues or not error.hosts or not refused or self.orders.stop() is not None:
            return None
        gone = dict.fromkeys(error.hosts, error.message.splitlines()[-1])
        self._refused |= gone
        step = assign(Restart("hosts refused", gone), self.given, self._so_far(), num_ended=self.given.num_ended)
        if isinstance(step, End):
            return None
        self.journal.emit("retired", hosts=gone)
        return step.given

    def _so_far(self) -> RunSoFar:
        """The run until now, from the bundle and from the hosts that refused a restart."""
        data = read_json(self.paths.fleet)
        fleet = Fleet.from_json(data, job_from_json(read_json(self.paths.root / "job.json"))) if data else None
        retired = {host: why for row in self.history for host, why in row["retired"].items()} | self._refused
        first = self.history[0]["hosts"] if self.history else [host.name for host in self.given.plan.hosts]
        return RunSoFar(fleet, retired, len(first))

    # -- carrying it out -----------------------------------------------------------------------------
    def _record(self, outcome: Outcome, step: Following | End) -> None:
        """The attempt's row in run.json, where there is more than one attempt or could have been."""
        if self.history or isinstance(step, Following) or step.reason:
            retired = dict(step.retired) if isinstance(step, Following) else {}
            self.history.append(self._row(outcome, step.reason, retired))
            self.bundle.update_run(attempts=self.history)
        if isinstance(step, End) and step.reason:
            self.journal.emit("warning", message=f"no restart: {step.reason}")

    def _row(self, outcome: Outcome, reason: str, retired: dict[str, str]) -> dict[str, Any]:
        verdict = outcome.verdict
        return {
            "attempt": self.given.attempt,
            "hosts": [host.name for host in self.given.plan.hosts],
            "started": read_json(self.paths.run).get("started"),
            "ended": time.time(),
            "verdict": verdict.kind,
            "message": verdict.message,
            "fault": verdict.host or "",
            "retired": retired,
            "reason": reason,
        }

    # -- between two attempts ------------------------------------------------------------------------
    def _make_sure(self, collected: Collected, following: Following) -> None:
        """Wait until no rank of the ended attempt can be alive on any host."""
        hosts = [host.name for host in following.given.plan.hosts]
        before = {host.name for host in self.given.plan.hosts}
        self.journal.emit(
            "restart",
            attempt=following.given.attempt,
            reason=following.reason,
            retired=dict(following.retired),
            new=[name for name in hosts if name not in before],
            hosts=hosts,
        )
        if not collected.unfenced:
            return
        self.bundle.update_run(status=str(RunStatus.WAITING))
        still = fence(self.given, collected.unfenced, self.orders, self.journal, keep=self._keep_on)
        if still:
            self._lost[self.given.attempt] = {host: collected.outcome.left[host][0] for host in still}

    def _last_call(self, left: dict[str, list[str]]) -> None:
        """Try once more to clean hosts that were lost during the run; `left` lists the others for gc.

        It also lists what earlier attempts could not collect.
        """
        self.paths.source_archive.unlink(missing_ok=True)
        for attempt, hosts in self._lost.items():
            given = dataclasses.replace(self.given, attempt=attempt)
            cleaned = reclaim(given, set(hosts), until=time.monotonic() + LAST_CALL_S, keep=self._keep_on)
            for host in set(hosts) - cleaned:
                left.setdefault(host, []).append(hosts[host])
        for host, rows in self._kept.items():
            left.setdefault(host, []).extend(rows)
        if self._lost or self._kept:
            self.bundle.update_run(left_behind=left)


@contextlib.contextmanager
def lock(paths: RunPaths) -> Any:
    """Held by the supervisor of a run. Busy when another has it."""
    handle: IO[str] = paths.lock.open("a")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        raise Busy(f"run {paths.run_id} is supervised by another process", hint="ddp-play attach shows it") from None
    try:
        yield handle
    finally:
        handle.close()
