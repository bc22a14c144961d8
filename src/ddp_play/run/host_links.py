"""Links to all hosts of an attempt: requests to all of them at once, heartbeats, new channels."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.format_version import format_stamp
from ddp_play.engines.registry import engine_of
from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.guard.protocol import WITHDRAWN, protocol_problem, run_key
from ddp_play.planning.host_facts import clock_offset
from ddp_play.run.failure_grace import FailureGrace
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_frames import HostFrameError, checked
from ddp_play.run.host_refusals import raise_not_opened, raise_refusal
from ddp_play.run.host_spec import HostPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ddp_play.engines.route import Route
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.link import Link

DATA = ("log", "metrics", "nccl", "samples", "file")
BEAT_S = 1.0
# No message for this long although every heartbeat has a reply: open another channel.
SILENT_S = 5.0
RECONNECT_S = 2.0
# A call of `pump` that is later than expected by this much: the controller itself was stalled.
STALL_S = 0.2
# Replies with bytes after their header; these are then in the reply under this name.
WITH_PAYLOAD, PAYLOAD = ("check_read", "check_reach", "check_end"), "payload"
NOTHING_YET: dict[str, dict[str, float]] = {"logs": {}, "metrics": {}, "nccl": {}}
# A new channel gets this long for its first message: a busy host needs seconds for the login and to start Python.
OPENING_S = 15.0


class Gang:
    """All links of one attempt. `on_data` receives log, metrics and file frames, `on_host` changes of reachability."""

    def __init__(
        self,
        links: list[Link],
        *,
        run_id: str,
        token: str,
        attempt: int,
        on_data: Callable[[Link, Frame], None] = lambda _link, _frame: None,
        on_host: Callable[[Link, str], None] = lambda _link, _how: None,
        offsets: Callable[[str], Mapping[str, Mapping[str, float]]] = lambda _host: NOTHING_YET,
        interruption: Callable[[str], str] = lambda _kind: "",
    ) -> None:
        """`interruption`: why to stop waiting for replies to this kind of request; empty: go on waiting."""
        self.links = links
        self.on_pump: Callable[[], None] = lambda: None  # called several times per second while frames are waited for
        self._interruption = interruption
        self.run_id = run_id
        self.token = token
        self.attempt = attempt
        self._on_data = on_data
        self._on_host = on_host
        self._offsets = offsets
        self._due = float("inf")  # latest time for the next call of `pump`

    @property
    def run_key(self) -> str:
        """The run's name on hosts."""
        return run_key(self.run_id, self.token)

    def link(self, name: str) -> Link:
        """The link of a host."""
        return next(link for link in self.links if link.name == name)

    # -- opening -------------------------------------------------------------------------------------
    def open_all(
        self,
        *,
        deadline_s: float,
        failure: type[HostNotReady] = HostNotReady,
        channels: Mapping[str, ProcessChannel] | None = None,
        fail_fast: bool = True,
    ) -> None:
        """A channel to every host; `failure` naming those that do not answer. `channels`: by host, open already.

        `fail_fast`: when one host has failed, the others get a FailureGrace, and only those that failed are named.
        """
        given = {name: channel for name, channel in (channels or {}).items() if not channel.broken}
        for link in self.links:
            self._open(link, link.route, given.get(link.name))
        until, grace = time.monotonic() + deadline_s, FailureGrace()
        while (waiting := [link for link in self.links if link.place is None]) and time.monotonic() < until:
            self.pump(0.5)
            waiting = [link for link in waiting if link.place is None]
            for link in waiting:
                if self._out(link) and link.channel is given.pop(link.name, None):
                    self._open(link, link.route)  # the host had closed it
            out = [link for link in waiting if self._out(link)]
            if len(out) == len(waiting) or (fail_fast and grace.over(failed=bool(out))):
                waiting = out
                break
        raise_not_opened(waiting, failure)

    def _open(self, link: Link, route: Route, channel: ProcessChannel | None = None) -> None:
        """Open the attempt over `channel`, or else over a new one."""
        if link.channel is not None and link.channel is not channel:
            link.channel.close()
        link.channel = channel or ProcessChannel(
            route, become_password=link.become_password, ssh_password=link.ssh_password
        )
        link.opened_at = time.monotonic()
        link.asked = time.time()
        link.refused = None
        run: dict[str, Any] = {"run": self.run_id, "token": self.token, "attempt": self.attempt, "host": link.name}
        link.channel.send("open", **run, **format_stamp())

    def _on_opened(self, link: Link, header: dict[str, Any]) -> None:
        if why := protocol_problem(header):
            self._give_up(link, f"the program on this host was {why}")
            return
        link.clock_offset_s = clock_offset(header["clock"], sent=link.asked, received=time.time())
        found = {name: bool(header.get(name, True)) for name in ("has_files", "has_logs")}
        link.place = HostPlace(header["dir"], header["secrets"], header["uid"], **found)
        link.uptime_s = header.get("uptime")
        if header.get("state"):
            link.state = header["state"]
            link.guard_gone = not header["guard_alive"] and link.state.get("phase") != "ended"
        if link.following:
            self.follow(link)
            self._on_host(link, "back")

    def follow(self, link: Link) -> None:
        """Request all output that the bundle does not have yet."""
        link.following = True
        if link.channel is not None:
            offsets: dict[str, Any] = {**self._offsets(link.name)}
            link.channel.send("follow", **offsets)

    # -- requests ------------------------------------------------------------------------------------
    def ask(
        self,
        kind: str,
        reply: str,
        *,
        links: list[Link] | None = None,
        deadline_s: float,
        silence_s: float = float("inf"),
        fields: Callable[[Link], dict[str, Any]] | None = None,
        withdraw: bool = False,
    ) -> dict[str, dict[str, Any]]:
        """Send a request to many hosts at once and return their replies by host. Raises the class of the last refusal.

        HostNotReady if a channel breaks or a host is silent for `silence_s`. The error lists the problems of all hosts.
        `withdraw`: the others leave off a FailureGrace after one has failed or is silent, or if the run is to stop.
        """
        asked = [link for link in (links if links is not None else self.links) if not link.lost]
        for link in asked:
            self._request(link, kind, reply, fields(link) if fields else {})
        began, grace = time.monotonic(), FailureGrace()
        while time.monotonic() < began + deadline_s:
            unanswered = [link for link in asked if reply not in link.replies and not self._out(link)]
            open_ones = [link for link in unanswered if min(link.silent_s(), time.monotonic() - began) < silence_s]
            if not open_ones:
                break
            why = self._interruption(kind)
            failed = len(open_ones) < len(unanswered) or any(self._out(link) for link in asked)
            if withdraw and (why or grace.over(failed=failed)):
                self.tell("withdraw", links=open_ones)
                withdraw = False
            if why:
                raise Interrupted(why)
            self.pump(0.5)
            if time.monotonic() - began > BEAT_S:
                for link in asked:  # a prepared host waits for the start signal only while heartbeats arrive
                    self._beat(link)
        without = [link for link in asked if reply not in link.replies]
        causes = [link for link in without if not link.refused or link.refused.get("error") != WITHDRAWN]
        raise_refusal(causes or without, kind)
        return {link.name: link.replies[reply] for link in asked}

    def turn(self, kind: str) -> None:
        """Wait for frames once, with heartbeats. Interrupted if the run is to stop while it waits for this kind."""
        if why := self._interruption(kind):
            raise Interrupted(why)
        self.pump(0.5)
        for link in self.links:
            self._beat(link)

    def _request(self, link: Link, kind: str, reply: str, fields: dict[str, Any]) -> None:
        link.replies.pop(reply, None)
        link.refused = None
        if link.channel is not None:
            link.channel.send(kind, **fields)

    def _out(self, link: Link) -> bool:
        return link.refused is not None or link.channel is None or bool(link.channel.broken)

    def tell(self, kind: str, *, links: list[Link] | None = None, **fields: Any) -> None:
        """Send an order without waiting for a reply."""
        for link in links if links is not None else self.links:
            if not link.lost and link.channel is not None and not link.channel.broken:
                link.channel.send(kind, **fields)

    # -- pumping -------------------------------------------------------------------------------------
    def pump(self, timeout_s: float) -> None:
        """Wait for frames from any host and handle those that have arrived."""
        self.notice_stalls()
        self.on_pump()
        self._due = time.monotonic() + timeout_s
        channels = [link.channel for link in self.links if link.channel is not None and not link.channel.broken]
        wait_any(channels, timeout_s)
        for link in self.links:
            if link.channel is not None:
                self._take(link, link.channel.receive())

    def notice_stalls(self) -> None:
        """Do not count time in which the controller was suspended or had no CPU as silence of the hosts."""
        late_s = (now := time.monotonic()) - self._due
        if late_s > STALL_S:
            for link in self.links:
                link.excused_s += late_s
            self._due = now

    def _take(self, link: Link, frames: list[Frame]) -> None:
        try:
            for header, payload in frames:
                if (known := checked(header, link.ranks, self.run_key)) is not None:
                    self._handle(link, (known, payload))
        except HostFrameError as error:
            self._give_up(link, f"it sent {error}; is the program on this host ours?")

    def _give_up(self, link: Link, why: str) -> None:
        """Ignore a host from now on, because it sent a frame that no version of the host program sends."""
        if link.channel is not None:
            link.channel.close(why)
        if link.following:
            link.lost = why
            self._on_host(link, "lost")

    def _handle(self, link: Link, frame: Frame) -> None:
        header, payload = frame
        link.heard, link.excused_s = time.monotonic(), 0.0
        kind = str(header["t"])
        if kind in DATA:
            self._on_data(link, frame)
        elif kind == "state":
            link.state = header["state"]
        elif kind == "opened":
            self._on_opened(link, header)
        elif kind == "refused":
            link.refused = header
        else:
            if kind == "beat":
                link.guard_gone = bool(header["guard_gone"])
                link.uptime_s = header.get("uptime")
            link.replies[kind] = {**header, PAYLOAD: payload} if kind in WITH_PAYLOAD else header

    def _beat(self, link: Link) -> None:
        """Send a heartbeat if the last one was more than BEAT_S ago."""
        usable = link.place is not None and link.connected and not link.lost
        if usable and time.monotonic() - link.asked_beat > BEAT_S:
            link.asked_beat = time.monotonic()
            self.tell("beat", links=[link], seen=link.uptime_s)

    def keep_alive(self) -> None:
        """Send heartbeats, and open new channels to hosts whose channel broke or is silent."""
        now = time.monotonic()
        for link in self.links:
            if link.lost:
                continue
            patience_s = SILENT_S if link.heard >= link.opened_at else OPENING_S
            if link.connected and not (link.silent_s() > SILENT_S and now - link.opened_at > patience_s):
                self._beat(link)
            elif now - link.opened_at > RECONNECT_S:
                if link.place is not None and link.silent_s() < SILENT_S + RECONNECT_S:
                    self._on_host(link, "silent")
                self._open(link, engine_of(link.route).fresh(link.route))

    def reopen(self) -> None:
        """Open a new channel to each host that has none and is not lost, at most every RECONNECT_S. No heartbeat."""
        for link in self.links:
            stale = link.place is None and time.monotonic() - link.opened_at > OPENING_S
            if (
                not link.lost
                and (not link.connected or stale)
                and (time.monotonic() - link.opened_at > RECONNECT_S or link.channel is None)
            ):
                self._open(link, engine_of(link.route).fresh(link.route))

    def close(self) -> None:
        """Close all channels. Guards and ranks on the hosts go on."""
        self.tell("bye")
        until = time.monotonic() + 0.5
        while time.monotonic() < until and any(link.channel and not link.channel.broken for link in self.links):
            self.pump(0.05)
        for link in self.links:
            if link.channel is not None:
                link.channel.close()
