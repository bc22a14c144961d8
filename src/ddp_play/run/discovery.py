"""Discovery: a channel to each host that is asked, over which the host answers its facts. The channels stay open.

It never fails because of a host: a host that cannot be used has a problem with a kind and a remedy. Discovery goes on
with the others, and all problems are reported together.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ddp_play.ansible import bounded_execution, host_problems
from ddp_play.ansible.discover_action import checked_facts
from ddp_play.ansible.known_problems import Kind
from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.guard.protocol import UNREADABLE
from ddp_play.run.file_limit import more_files
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.stop_requests import NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.engines.route import Route

BEAT_S = 5.0
MAX_BYTES = bounded_execution.MAX_MIB << 20
# Before another try of a connection that ssh could not open.
RETRY_S = 1.0
NO_RETRY = (Kind.CREDENTIALS, Kind.HOST_KEY, Kind.BECOME)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked of one host, and how it is reached. Passwords exist in memory only."""

    route: Route
    address: str
    wanted: dict[str, Any]
    inventory: dict[str, Any]  # variables of the host that belong to its facts
    become_password: str = field(default="", repr=False)
    ssh_password: str = field(default="", repr=False)
    tries: int = 1


@dataclass
class _Asked:
    query: Query
    until: float
    channel: ProcessChannel
    sent: float
    tries: int
    retry_at: float = 0.0
    beaten: float = field(default_factory=time.monotonic)
    row: dict[str, Any] | None = None  # `facts` and `route`, or `problem`


def _never() -> bool:
    return False


class Discovery:
    """Channels to hosts and their answers. `rows`: for each host that was asked, `facts` and `route`, or `problem`."""

    def __init__(self, limit_s: float, is_stopped: Callable[[], bool] = _never) -> None:
        """`limit_s`: time that a host has to answer. `is_stopped`: whether the answers are not wanted any more."""
        self.rows: dict[str, dict[str, Any]] = {}
        self._is_stopped = is_stopped
        self._limit_s = limit_s
        self._asked: dict[str, _Asked] = {}
        self._limit = contextlib.ExitStack()
        self._limit.enter_context(more_files())

    def ask(self, query: Query) -> None:
        """Open a channel to a host and send the query. Returns at once; `finish` waits for the answers."""
        wanted = {**query.wanted, "limit_s": self._limit_s * bounded_execution.HOST_PART}
        query = replace(query, wanted=wanted)
        until = time.monotonic() + self._limit_s
        self._asked[query.route.host] = _Asked(query, until, _open(query), time.time(), query.tries)
        self._pump(0.0)

    def refuse(self, host: str, problem: dict[str, str]) -> None:
        """Record a host that is not asked because of a problem."""
        self.rows[host] = {"problem": problem}

    def finish(self) -> None:
        """Wait for all answers. Raises Interrupted once they are not wanted any more."""
        while any(asked.row is None for asked in self._asked.values()):
            self.end_if_stopped()
            self._pump(0.2)

    def end_if_stopped(self) -> None:
        """Raise Interrupted if the answers are not wanted any more."""
        if self._is_stopped():
            raise Interrupted(NOT_STARTED)

    def take(self) -> dict[str, ProcessChannel]:
        """The open channels by host; whoever takes them closes them."""
        found = {host: asked.channel for host, asked in self._asked.items() if not asked.channel.broken}
        self._asked = {}
        return found

    def passwords(self) -> tuple[dict[str, str], dict[str, str]]:
        """The passwords of become and of ssh, by host."""
        rows = [(host, asked.query) for host, asked in self._asked.items()]
        return (
            {host: query.become_password for host, query in rows if query.become_password},
            {host: query.ssh_password for host, query in rows if query.ssh_password},
        )

    def close(self) -> None:
        """Close the channels that nobody has taken, and lower the limit of open files again."""
        for asked in self._asked.values():
            asked.channel.close()
        self._limit.close()

    def _pump(self, timeout_s: float) -> None:
        wait_any([asked.channel for asked in self._asked.values() if not asked.channel.broken], timeout_s)
        for asked in self._asked.values():
            if asked.row is None:
                self._look(asked)
            else:
                _keep_open(asked)

    def _look(self, asked: _Asked) -> None:
        """Take what a host has sent; decide whether it has answered, failed, or gets another try."""
        channel = asked.channel
        if asked.retry_at:
            if time.monotonic() >= asked.retry_at:
                asked.retry_at, asked.channel, asked.sent = 0.0, _open(asked.query), time.time()
            return
        if frames := channel.receive():
            self._answer(asked, *frames[0])
        elif channel.broken:
            self._ended(asked)
        elif channel.num_bytes > MAX_BYTES:
            self._problem(asked, f"it sent more than {bounded_execution.MAX_MIB} MiB instead of an answer")
        elif time.monotonic() > asked.until:
            said = channel.output().splitlines()
            quoted = f"; it said: {said[-1]}" if said else ""
            self._problem(asked, f"it did not answer within {self._limit_s:.0f} s{quoted}")

    def _answer(self, asked: _Asked, header: dict[str, Any], payload: bytes) -> None:
        if header.get("t") == UNREADABLE:
            self._problem(asked, f"it sent {header.get('why')}; is the program on this host ours?")
        elif header.get("t") == "refused":
            self._problem(asked, str(header.get("message"))[:400])
        else:
            try:
                inventory = asked.query.inventory
                facts = checked_facts(payload, sent=asked.sent, received=time.time(), inventory=inventory)
            except HostNotReady as error:
                self._problem(asked, error.message, hint=error.hint)
            else:
                asked.row = {"facts": facts, "route": asked.query.route.to_json()}
                self.rows[asked.query.route.host] = asked.row

    def _ended(self, asked: _Asked) -> None:
        """The channel ended without an answer: ssh could not open it, or the host's program did not run."""
        channel = asked.channel
        if channel.reached:
            self._problem(asked, channel.broken)
            return
        text = f"Failed to connect to the host via ssh: {channel.output() or channel.broken}"
        problem = host_problems.problem_from_text(asked.query.route.host, text, asked.query.address)
        asked.tries -= 1
        if asked.tries > 0 and problem["kind"] not in NO_RETRY:
            asked.retry_at = time.monotonic() + RETRY_S
            return
        self._set_problem(asked, problem)

    def _problem(self, asked: _Asked, text: str, *, hint: str = "") -> None:
        host, address = asked.query.route.host, asked.query.address
        self._set_problem(asked, host_problems.problem_from_text(host, text, address, reached=True, hint=hint))

    def _set_problem(self, asked: _Asked, problem: dict[str, str]) -> None:
        asked.channel.close()
        asked.row = {"problem": problem}
        self.rows[asked.query.route.host] = asked.row


def _open(query: Query) -> ProcessChannel:
    channel = ProcessChannel(query.route, become_password=query.become_password, ssh_password=query.ssh_password)
    channel.send("facts", wanted=query.wanted)
    return channel


def _keep_open(asked: _Asked) -> None:
    """A host whose controller is silent for 30 s ends its channel, and others may take longer to answer."""
    if not asked.channel.broken and time.monotonic() - asked.beaten > BEAT_S:
        asked.beaten = time.monotonic()
        asked.channel.send("beat")
    asked.channel.receive()
