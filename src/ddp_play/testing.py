"""Fakes for tests of ddp-play and of programs that use it: a host at the end of a channel, and ansible-playbook."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.runner import PlaybookOutcome, PlaybookStatus
from ddp_play.engines.interface import Allocation, AllocationState, Phase
from ddp_play.guard.protocol import FrameReader, encode, run_key

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.engines.interface import Wanted
    from ddp_play.engines.route import Route
    from ddp_play.errors import DdpPlayError
    from ddp_play.guard.protocol import Frame, Header


@dataclass
class FakeHost:
    """Fake of the host's end of a channel: records every order, and answers like a healthy host by default.

    `answers` maps the kind of an order to the encoded frames of its answer, or to a function that returns them.
    An empty list means no answer. `say` sends a frame that is no answer to an order, such as a guard's new state.
    """

    name: str
    answers: dict[str, list[bytes] | Callable[[Header, bytes], list[bytes]]] = field(default_factory=dict)
    uid: int = 1000
    state: dict[str, Any] = field(default_factory=dict)
    guard_gone: bool = False
    has_files: bool = True
    orders: list[tuple[Header, bytes]] = field(default_factory=list)
    channels: list[FakeChannel] = field(default_factory=list)

    def kinds(self) -> list[str]:
        """Kinds of all orders so far, without heartbeats."""
        return [str(header["t"]) for header, _ in self.orders if header["t"] != "beat"]

    def order(self, kind: str) -> Header:
        """Newest order of a kind."""
        return next(header for header, _ in reversed(self.orders) if header["t"] == kind)

    def say(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        """Send a frame that is no answer to an order, on the newest channel."""
        self.channels[-1].arrive(encode(kind, payload, **fields))

    def say_state(self, phase: str, ranks: dict[int, dict[str, Any]], *, reason: str = "") -> None:
        """Send the guard's state, as the channel does when it has changed."""
        rows = {str(rank): {**RANK_ROW, **row} for rank, row in ranks.items()}
        self.state = {"phase": phase, "reason": reason, "guard_pid": 1, "guard_ticks": 1, "ranks": rows}
        self.say("state", state=self.state)

    def obey(self, header: Header, payload: bytes) -> list[bytes]:
        """Record an order and return the frames of its answer."""
        self.orders.append((header, payload))
        kind = str(header["t"])
        if kind in self.answers:
            answer = self.answers[kind]
            return answer(header, payload) if callable(answer) else answer
        return self._healthy(kind, header)

    def _healthy(self, kind: str, header: Header) -> list[bytes]:
        key = run_key(str(header.get("run")), str(header.get("token", "")))
        opened = {
            "key": key,
            "dir": f"/state/{self.name}",
            "has_files": self.has_files,
            "has_logs": self.has_files,
            "secrets": f"/shm/{self.name}",
            "clock": 0.0,
            "uid": self.uid,
        }
        alive = bool(self.state) and self.state["phase"] != "ended" and not self.guard_gone
        plain: dict[str, tuple[str, dict[str, Any]]] = {
            "open": ("opened", {**opened, "guard_alive": alive, "state": self.state}),
            "beat": ("beat", {"id": 0, "clock": 0.0, "guard_gone": self.guard_gone}),
            "claim": ("claimed", {}),
            "queue": ("queued", {"clock": 0.0, "ready": header.get("time") is not None}),
            "lease_port": ("leased", {"port": header.get("range", [0])[0]}),
            "stage": ("staged", {"missing": []}),
            "assemble": ("staged", {"missing": []}),
            "prepare": ("prepared", {"guard_pid": 1}),
            "listen": ("listening", {"port": 40000}),
            "probe": ("probed", {"failed": []}),
            "go": ("going", {"counters": {"eth0": {"rx": 0, "tx": 0}}}),
            "stop": ("stopping", {}),
            "drain": ("drained", {"id": 0, "counters": {"eth0": {"rx": 2_000_000, "tx": 1_000_000}}}),
            "capture": ("captured", {"ranks": {}}),
            "progress": ("progressed", {"newest": None}),
            "fetch": ("fetched", {"missing": [], "artifacts": []}),
            "end": ("ended", {"left": []}),
            "clean": ("cleaned", {"left": []}),
        }
        if kind not in plain:
            return []
        answer, fields = plain[kind]
        return [encode(answer, **fields)]


RANK_ROW: dict[str, Any] = {
    "state": "running",
    "pid": 2,
    "ticks": 2,
    "container": None,
    "started": 1.0,
    "ended": None,
    "exit_code": None,
    "signal": None,
    "oom": False,
    "stopped": False,
    "detail": "",
}


def refusal(order: str, message: str, *, error: str = "host_not_ready", hint: str = "") -> list[bytes]:
    """Answer of a host that refuses an order."""
    return [encode("refused", order=order, message=message, error=error, hint=hint)]


class FakeChannel:
    """Implements `ddp_play.run.host_channel.Channel` with a FakeHost: without processes, descriptors and waiting."""

    def __init__(self, far_end: FakeHost) -> None:
        self.host = far_end.name
        self.far_end = far_end
        self._broken = ""
        self._reader = FrameReader(limited=True)
        self._orders = FrameReader()
        self._frames: deque[Frame] = deque()
        far_end.channels.append(self)

    def send(self, kind: str, payload: bytes = b"", **fields: Any) -> None:
        """Encode and decode an order like a real channel, then add the FakeHost's answer to the received frames."""
        if self._broken:
            return
        for header, body in self._orders.feed(encode(kind, payload, **fields)):
            for answer in self.far_end.obey(header, body):
                self.arrive(answer)
        if kind == "bye":
            self._broken = "the channel ended (exit code 0)"

    def arrive(self, data: bytes) -> None:
        """Receive bytes from the host."""
        self._frames.extend(self._reader.feed(data))

    def receive(self) -> list[Frame]:
        frames = list(self._frames)
        self._frames.clear()
        return [] if self._broken else frames

    def pump(self) -> None:
        """Do nothing: no output is ever queued."""

    def read_fds(self) -> tuple[int, ...]:
        """No file descriptors."""
        return ()

    def write_fd(self) -> int | None:
        """No file descriptor."""
        return None

    @property
    def num_queued(self) -> int:
        """Nothing: output is never queued."""
        return 0

    @property
    def broken(self) -> str:
        return self._broken

    def cut(self, why: str) -> None:
        """Break the connection."""
        self._broken = why

    def close(self, why: str = "closed") -> None:
        self._broken = self._broken or why


class FakeHosts(dict[str, FakeHost]):
    """Fake of `ddp_play.run.host_channel.ProcessChannel` that opens a FakeChannel to the FakeHost of the route."""

    def __init__(self, *hosts: FakeHost) -> None:
        super().__init__({host.name: host for host in hosts})
        self.routes: list[Route] = []
        self.passwords: dict[str, str] = {}
        self.ssh_passwords: dict[str, str] = {}

    def __call__(self, route: Route, *, become_password: str = "", ssh_password: str = "") -> FakeChannel:
        self.routes.append(route)
        self.passwords[route.host] = become_password
        self.ssh_passwords[route.host] = ssh_password
        return FakeChannel(self[route.host])


@dataclass
class FakeEngine:
    """Implements `ddp_play.engines.interface.Engine`: gives one allocation, whose state the test sets.

    `refuses`: raised by `allocate`. `cancelled`: ids of the allocations that were cancelled.
    """

    name: str = "fake"
    over: str = ""
    now: AllocationState = field(default_factory=lambda: AllocationState(Phase.PENDING))
    refuses: DdpPlayError | None = None
    wanted: list[Wanted] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)

    def allocate(self, wanted: Wanted) -> Allocation:
        self.wanted.append(wanted)
        if self.refuses is not None:
            raise self.refuses
        return Allocation(self.name, str(len(self.wanted)), has_controller=True)

    def state(self, allocation: Allocation) -> AllocationState:  # noqa: ARG002 - the interface's
        return self.now

    def cancel(self, allocation: Allocation) -> None:
        self.cancelled.append(allocation.id)

    def carries(self, route: Route) -> bool:
        return route.program == self.name

    def fresh(self, route: Route) -> Route:
        return route

    def usable(self, route: Route) -> Route:
        return route

    def interactive(self, route: Route, command: str, *, terminal: bool) -> list[str]:  # noqa: ARG002
        return [*route.argv, command]

    def end(self, client: subprocess.Popen[bytes]) -> None:
        client.kill()
        client.wait()

    def no_connection(self, route: Route, code: int | None) -> bool:  # noqa: ARG002
        return False


@dataclass
class FakePlaybookRunner:
    """Implements `ddp_play.ansible.runner.PlaybookRunner`: passes `events` on, calls `work`, returns `outcome`.

    `work` gets the request and does what the playbook would do, such as to write a plan or a run.json. It may raise.
    """

    outcome: PlaybookOutcome = field(default_factory=lambda: PlaybookOutcome(PlaybookStatus.OK, 0, (), ""))
    events: tuple[dict[str, Any], ...] = ()
    work: Callable[[PlaybookRequest], None] | None = None
    requests: list[PlaybookRequest] = field(default_factory=list)
    passwords: list[Passwords] = field(default_factory=list)
    private_dirs: list[Path] = field(default_factory=list)

    def run(
        self,
        request: PlaybookRequest,
        *,
        private_dir: Path,
        passwords: Passwords,
        on_event: Callable[[dict[str, Any]], None],
        cancel: Callable[[], bool] | None = None,
    ) -> PlaybookOutcome:
        del cancel
        self.requests.append(request)
        self.passwords.append(passwords)
        self.private_dirs.append(private_dir)
        for event in self.events:
            on_event(event)
        if self.work is not None:
            self.work(request)
        return self.outcome
