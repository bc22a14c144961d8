"""A run is one attempt after another: supervise, decide, make sure that the old one is dead, start the next.

Why each of these steps is as it is: docs/decisions/0002-attempts.md.
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
from ddp_play.run.restart_decision import End, Ended, Policy, Restart, next_step
from ddp_play.run.stop_requests import Orders
from ddp_play.run.supervisor import NotStarted, Supervisor
from ddp_play.run.uncollected_artifacts import Rescue

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.run.prepare_and_start import Assignment

# At the end of a run: how long hosts that were lost on the way get to answer once more.
LAST_CALL_S = 5.0
# How often a run that waits for slots looks for them.
SLOTS_TURN_S = 5.0


class Attempts:
    """All attempts of one run, held by a lock so that two never supervise the same one."""

    def __init__(self, given: Assignment) -> None:
        self.given = given
        self.paths = given.paths
        self.bundle = Bundle(given.paths)
        self.journal = Journal(given.paths.events)
        self.orders = Orders(given.paths)
        document = read_json(given.paths.run)
        self.history: list[dict[str, Any]] = list(document.get("attempts") or ())
        self._next: Assignment | None = None
        self._began = time.monotonic()
        self._waits_for = ""
        self._refused: dict[str, str] = {}  # hosts that a restart could not use, with what they said
        self._lost: dict[int, dict[str, str]] = {}  # attempt -> hosts of it that we could not clean, with the reason
        self._kept: dict[str, list[str]] = {}  # host -> what earlier attempts left there because it was not collected

    def run(self) -> Outcome:
        """From an unstarted plan to the run's outcome."""
        return self._hold(Supervisor.run)

    def take_over(self) -> Outcome:
        """From whatever the hosts say to the run's outcome: its controller died."""
        return self._hold(Supervisor.take_over)

    def _hold(self, begin: Callable[[Supervisor], Outcome]) -> Outcome:
        with lock(self.paths), self.orders.listening():
            while True:
                outcome = self._attempt(begin)
                if outcome is not None:
                    self._last_call(outcome.left)
                    return outcome
                begin = Supervisor.run

    def _attempt(self, begin: Callable[[Supervisor], Outcome]) -> Outcome | None:
        """One attempt; its outcome when it was the last."""
        self._next = None
        supervisor = Supervisor(self.given, self.orders, self)
        try:
            outcome = begin(supervisor)
        except DdpPlayError as error:
            if supervisor.not_started is None:
                raise
            self._try_again(supervisor.not_started, error)
            return None
        following = self._following()
        if following is None:
            return outcome
        try:
            self._make_sure(supervisor, outcome, following)
        except DdpPlayError:  # stopped while it waited, or of some host we shall never know
            self._give_up(unsafe=tuple(sorted(outcome.left)))
            raise
        for host, rows in supervisor.kept.items():
            self._kept.setdefault(host, []).extend(rows)
        self.bundle.archive(self.given.attempt, outcome.to_json())
        self._begin_with(following)
        return None

    def _following(self) -> Assignment | None:
        """What `follows` decided on."""
        return self._next

    def _try_again(self, tried: NotStarted, error: DdpPlayError) -> None:
        """Another try, on other hosts or when slots may be free; else the error, with everything collected or named."""
        try:
            following = self._elsewhere(error) or self._later(tried, error)
            if following is None:
                raise error
            fence(self.given, tried.unfenced, self.orders, self.journal)
        except DdpPlayError:
            if self.given.continues or tried.signalled:
                self._give_up(unsafe=tuple(sorted(tried.unfenced)))
            raise
        self._begin_with(following)

    def _later(self, tried: NotStarted, error: DdpPlayError) -> Assignment | None:
        """The same again when slots may be free, after a moment; a number that hosts know of is not used twice."""
        if not self._may_wait(error):
            return None
        self._wait_a_moment(error)
        return dataclasses.replace(self.given, attempt=self.given.attempt + tried.prepared)

    def _give_up(self, *, unsafe: tuple[str, ...]) -> None:
        """No further attempt: what earlier ones left is collected, or named where it is."""
        rescue = Rescue(self.given, self.bundle, self.orders, self.journal)
        rescue.run(unsafe=unsafe)
        self._last_call(rescue.left)
        self.bundle.update_run(missing=rescue.missing, left_behind=rescue.left)

    def _begin_with(self, given: Assignment) -> None:
        self.given = given
        write_json(self.paths.plan, given.plan.to_json(), indent=None if given.plan.world_size > 64 else 2)
        hosts = [host.name for host in given.plan.hosts]
        self.bundle.update_run(hosts=hosts, world_size=given.plan.world_size, attempt=given.attempt)

    # -- waiting for slots ---------------------------------------------------------------------------
    def _may_wait(self, error: DdpPlayError) -> bool:
        """Were we asked to wait for slots, and is there time left?"""
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
    def follows(self, ended: Ended) -> bool:
        """Does another attempt follow? Then its plan is made. Either way the attempt gets its row in run.json."""
        step = next_step(ended, self._policy(), tuple(row["fault"] for row in self.history if row.get("fault")))
        if isinstance(step, Restart):
            step = self._prepare_next(step, num_ended=self.given.num_ended + 1)
        retired = step.gone if isinstance(step, Restart) else {}
        if self.history or isinstance(step, Restart) or step.reason:
            self._record(ended.outcome, step.reason, dict(retired))
        if isinstance(step, End) and step.reason:
            self.journal.emit("warning", message=f"no restart: {step.reason}")
        return isinstance(step, Restart)

    def _elsewhere(self, error: DdpPlayError) -> Assignment | None:
        """Another try with other hosts, where this was to be a restart and some of its hosts refused."""
        refused = isinstance(error, HostNotReady | SlotsTaken | NameTaken)
        if not self.given.continues or not error.hosts or not refused or self.orders.stop() is not None:
            return None
        gone = dict.fromkeys(error.hosts, error.message.splitlines()[-1])
        self._refused |= gone
        step = self._prepare_next(Restart("hosts refused", gone), num_ended=self.given.num_ended)
        if not isinstance(step, Restart):
            return None
        self.journal.emit("retired", hosts=gone)
        return self._next

    def _policy(self) -> Policy:
        job = read_json(self.paths.root / "job.json")
        return Policy(int(job.get("restarts", 0)), tuple(job.get("restart_exit_codes") or ()))

    def _prepare_next(self, step: Restart, *, num_ended: int) -> Restart | End:
        """The next attempt's assignment; End with the reason where there can be none."""
        data = read_json(self.paths.fleet)
        if not data:
            return End("its facts.json is not in the bundle")
        fleet = Fleet.from_json(data, job_from_json(read_json(self.paths.root / "job.json")))
        if fleet.secrets - set(self.given.secrets):
            return End("whoever took this run over does not know its secrets")
        retired = {host: why for row in self.history for host, why in row["retired"].items()} | self._refused
        previous = self.history[0]["hosts"] if self.history else [host.name for host in self.given.plan.hosts]
        try:
            plan, gone = fleet.plan(gone={**retired, **step.gone}, suspects=step.suspects, wanted=len(previous))
        except DdpPlayError as error:
            return End(f"too few hosts are left: {error.message}")
        self._next = dataclasses.replace(self.given, plan=plan, attempt=self.given.attempt + 1, num_ended=num_ended)
        fresh = {host: why for host, why in gone.items() if host not in retired}
        return Restart(step.reason, fresh, {})

    def _record(self, outcome: Outcome, reason: str, retired: dict[str, str]) -> None:
        document = read_json(self.paths.run)
        verdict = outcome.verdict
        self.history.append(
            {
                "attempt": self.given.attempt,
                "hosts": [host.name for host in self.given.plan.hosts],
                "started": document.get("started"),
                "ended": time.time(),
                "verdict": verdict.kind,
                "message": verdict.message,
                "fault": verdict.host or "",
                "retired": retired,
                "reason": reason,
            }
        )
        self.bundle.update_run(attempts=self.history)

    # -- between two attempts ------------------------------------------------------------------------
    def _make_sure(self, supervisor: Supervisor, outcome: Outcome, following: Assignment) -> None:
        """Return when no rank of the ended attempt can be alive anywhere."""
        row = self.history[-1]
        hosts = [host.name for host in following.plan.hosts]
        new = [name for name in hosts if name not in row["hosts"]]
        self.journal.emit(
            "restart", attempt=following.attempt, reason=row["reason"], retired=row["retired"], new=new, hosts=hosts
        )
        unfenced = supervisor.unfenced(outcome)
        if not unfenced:
            return
        self.bundle.update_run(status=str(RunStatus.WAITING))
        still = fence(self.given, unfenced, self.orders, self.journal)
        if still:
            self._lost[self.given.attempt] = {host: outcome.left[host][0] for host in still}

    def _last_call(self, left: dict[str, list[str]]) -> None:
        """Hosts that were lost on the way may be back: one more try, then `left` names them for gc.

        It names what earlier attempts could not collect, too.
        """
        self.paths.source_archive.unlink(missing_ok=True)
        for attempt, hosts in self._lost.items():
            given = dataclasses.replace(self.given, attempt=attempt)
            cleaned = reclaim(given, set(hosts), until=time.monotonic() + LAST_CALL_S)
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
