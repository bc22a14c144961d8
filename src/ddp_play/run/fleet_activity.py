"""Activity of all hosts of an inventory, asked again and again over open channels (`ddp-play top`)."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import write_json
from ddp_play.bundle.run_locks import is_locked
from ddp_play.engines.registry import engine_of
from ddp_play.engines.route import Route
from ddp_play.guard.protocol import UNREADABLE
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_frames import HostFrameError, checked_answer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.guard.protocol import Frame

INTERVAL_S, ANSWER_S = 3.0, 5.0
# Rates need two readings.
FIRST_S, ROUNDS_ONCE = 1.0, 2
REOPEN_S = 10.0
MAX_ANSWER = 1 << 20
HOST_FIELDS = ("cores", "cpu", "memory", "memory_total", "gpus")
RUN_FIELDS = ("run", "token", "attempt", "owner", "user", "age_s", "phase", "ranks", "unreadable", "cpu", "memory")
ANSWERS, VIEWER = "activity.json", "viewer.lock"


@dataclass(frozen=True, slots=True)
class ActivityOrders:
    """What the action plugin is to do: write answers to a directory until its viewer is gone, or `rounds` times."""

    directory: str
    rounds: int = 0  # 0: as long as somebody looks
    interval_s: float = INTERVAL_S

    def to_text(self) -> str:
        """For an environment variable."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> ActivityOrders:
        """From that variable."""
        return cls(**json.loads(text))


class FleetActivity:
    """Hosts and what they answered last. A host that does not answer keeps its problem until it answers again."""

    def __init__(
        self,
        rows: Mapping[str, dict[str, Any]],
        channels: dict[str, ProcessChannel],
        passwords: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
    ) -> None:
        """`rows`: by host its facts and route, or its problem. `passwords`: of become and of ssh, by host."""
        self.hosts = {name: _first_row(row) for name, row in rows.items()}
        self._routes = {name: Route.from_json(row["route"]) for name, row in rows.items() if "route" in row}
        self._channels = channels
        self._passwords = passwords
        self._opened = dict.fromkeys(self._routes, time.monotonic())

    def ask(self, limit_s: float = ANSWER_S) -> None:
        """Ask every host once, and note what each answers in this time."""
        self._reopen()
        waiting = {name: channel for name, channel in self._channels.items() if not channel.broken}
        for channel in waiting.values():
            channel.send("activity_read")
        until = time.monotonic() + limit_s
        while waiting and time.monotonic() < until:
            wait_any(list(waiting.values()), 0.2)
            waiting = {name: channel for name, channel in waiting.items() if not self._has_answered(name, channel)}
        for name, channel in self._channels.items():
            if channel.broken or name in waiting:
                self._set_problem(name, channel.broken or f"no answer within {limit_s:.0f} s")

    def _has_answered(self, name: str, channel: ProcessChannel) -> bool:
        """Has it answered, or can it no more?"""
        return any(self._take(name, frame) for frame in channel.receive()) or bool(channel.broken)

    def close(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            channel.close()

    def document(self) -> dict[str, Any]:
        """What is known of all hosts."""
        return {"time": time.time(), "hosts": self.hosts}

    def _take(self, name: str, frame: Frame) -> bool:
        """Is it the answer? Then note it."""
        header, payload = frame
        if header.get("t") not in ("activity_read", "refused", UNREADABLE):
            return False
        try:
            if header["t"] != "activity_read" or len(payload) > MAX_ANSWER:
                raise HostFrameError(str(header.get("message") or header.get("why") or "an answer that is too long"))
            answer = checked_answer("activity", json.loads(payload))
        except (ValueError, RecursionError) as error:  # HostFrameError is one
            self._channels[name].close(f"it sent {error}; is the program on this host ours?")
            return True
        self.hosts[name] = host_row(answer, slots=self.hosts[name]["slots"])
        return True

    def _set_problem(self, name: str, why: str) -> None:
        self.hosts[name] = host_row({}, slots=self.hosts[name]["slots"], problem=why)

    def _reopen(self) -> None:
        """A new channel to hosts whose channel has ended, at most every REOPEN_S."""
        become, ssh = self._passwords
        for name, route in self._routes.items():
            broken = name not in self._channels or self._channels[name].broken
            if broken and time.monotonic() - self._opened[name] > REOPEN_S:
                self._opened[name] = time.monotonic()
                self._channels[name] = ProcessChannel(
                    engine_of(route).fresh(route), become_password=become.get(name, ""), ssh_password=ssh.get(name, "")
                )


def host_row(answer: Mapping[str, Any], *, slots: int | None, problem: str = "", hint: str = "") -> dict[str, Any]:
    """A host in the document: its problem, or what it answered. What it could not read is None."""
    runs = [
        {**{name: run.get(name) for name in RUN_FIELDS}, "slots": list(run.get("slots") or ())}
        for run in answer.get("runs") or ()
    ]
    known = {name: answer.get(name) for name in HOST_FIELDS}
    others = list(answer.get("slots_of_others") or ())
    return {"problem": problem, "hint": hint, "slots": slots, **known, "slots_of_others": others, "runs": runs}


def _first_row(row: Mapping[str, Any]) -> dict[str, Any]:
    if "facts" not in row:
        problem = row["problem"]
        return host_row({}, slots=None, problem=problem["message"], hint=problem.get("hint") or "")
    return host_row({}, slots=num_slots(row["facts"]))


def num_slots(facts: Mapping[str, Any]) -> int:
    """Places for ranks on a host: its GPUs, else `ddp_slots`, else one."""
    given = (facts.get("inventory") or {}).get("slots")
    return len(facts.get("gpus") or ()) or int(given or 1)


def serve(fleet: FleetActivity, orders: ActivityOrders) -> None:
    """Ask and write the answers, as the orders say."""
    directory = Path(orders.directory)
    done = 0
    while orders.rounds == 0 or done < orders.rounds:
        began = time.monotonic()
        fleet.ask()
        done += 1
        write_json(directory / ANSWERS, {**fleet.document(), "round": done}, indent=None)
        next_at = began + (FIRST_S if done == 1 else orders.interval_s)
        while done != orders.rounds:  # at least once: slow hosts may take longer than the interval
            if orders.rounds == 0 and not is_locked(directory / VIEWER):
                return
            if time.monotonic() >= next_at:
                break
            time.sleep(min(0.2, max(0.0, next_at - time.monotonic())))
