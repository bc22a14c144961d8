"""Interface of an engine: allocate hosts, say how the allocation is, cancel it, and open channels to its hosts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from ddp_play.engines.route import Route
    from ddp_play.planning.job import Job


# Files of an engine in the directory `engine` of a bundle.
SCRIPT, OUTPUT, HOSTS = "script.sh", "output.log", "hosts.yml"
# Module that is a run's controller inside an allocation.
RUN_CONTROLLER = "ddp_play.run.allocated_controller"


class Phase(StrEnum):
    """How far an allocation is."""

    PENDING = "pending"
    GRANTED = "granted"
    ENDED = "ended"
    UNKNOWN = "unknown"  # the engine does not answer now


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run wants from an engine: hosts for its job, and the run's directory.

    `controller`: the module of ddp-play that is started inside the allocation, with the run's directory.
    """

    run_id: str
    run_dir: Path
    job: Job
    controller: str = RUN_CONTROLLER


@dataclass(frozen=True, slots=True)
class Allocation:
    """Hosts that an engine has given or will give to a run. `id` is empty where nothing has to be allocated.

    `has_controller`: the run's controller runs inside the allocation, and not where the command was typed. `requeues`:
    an allocation that ends before the run does comes back, with other hosts and the same id.
    """

    engine: str
    id: str = ""
    has_controller: bool = False
    requeues: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Allocation:
        """From the bundle."""
        return cls(str(data["engine"]), str(data["id"]), bool(data["has_controller"]), bool(data.get("requeues")))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended whose controller could not say it: kind and exit code of the verdict, words, and what helps."""

    kind: str
    exit_code: int
    words: str
    stopped: bool = False
    hint: str = ""


@dataclass(frozen=True, slots=True)
class AllocationState:
    """How an allocation is. `text`: one line for people, such as why it is still pending.

    `never`: why it will not start as it is; empty if it can start. `ending`: of an allocation that has ended, or
    that is granted, has lost its controller, and has to be cancelled.
    """

    phase: Phase
    text: str = ""
    never: str = ""
    ending: Ending | None = None


class Engine(Protocol):
    """An engine. Its fake for tests is `ddp_play.testing.FakeEngine`."""

    name: str
    over: str  # why none of its hosts can be reached when the run is over; empty if they stay

    def allocate(self, wanted: Wanted) -> Allocation:
        """Ask for hosts, and return at once. UsageError or HostNotReady if this can never be given."""

    def state(self, allocation: Allocation) -> AllocationState:
        """How the allocation is now. Raises nothing: an engine that does not answer is `Phase.UNKNOWN`."""

    def cancel(self, allocation: Allocation) -> None:
        """End the allocation and all that runs in it."""

    def carries(self, route: Route) -> bool:
        """Does this engine open this route's channels?"""

    def fresh(self, route: Route) -> Route:
        """The route without anything that it shares with other channels: that may hang with the network."""

    def usable(self, route: Route) -> Route:
        """The route as it can be used now."""

    def interactive(self, route: Route, command: str, *, terminal: bool) -> list[str]:
        """The argv of a person's command on the host, with a terminal there if the person has one."""

    def end(self, client: subprocess.Popen[bytes]) -> None:
        """End the program of a channel, which leads a process group of its own, and nothing on the host."""

    def no_connection(self, route: Route, code: int | None) -> bool:
        """Does this exit code of a channel's program say that it had no connection to the host?"""
