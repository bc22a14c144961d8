"""Exception classes of ddp-play, by who must act.

    DdpPlayError
    ├── UsageError          the command line or the job is wrong           exit 64
    ├── HostNotReady        a host is unreachable or lacks something       exit 69
    │   ├── NotTakenOver    attach found hosts unreachable: the run was not changed
    │   ├── HostUnfit       a check or probe before the start failed: a spare host may take its place
    │   └── UnknownVersion  a run there has a format of another ddp-play
    ├── CheckFailed         a check or a provisioning step failed          exit 1
    ├── Busy                slots or ports are taken: try again later      exit 75
    │   ├── SlotsTaken      by other runs on these hosts
    │   └── NameTaken       another run of the same name is on these hosts
    ├── Interrupted         the user asked to stop                         exit 130
    ├── DiskFull            no space for the bundle on the controller      exit 70
    └── InternalError       ddp-play itself failed; a log tells why        exit 70

A rank's failure is not an exception but an Outcome with a verdict, and the exit code is the rank's.
Only `ddp_play.cli.error_boundary` turns classes into exit codes; no other module exits.
"""

from __future__ import annotations

from typing import ClassVar


class DdpPlayError(Exception):
    """Error whose `message` tells what happened and where; `hint` is the command to run or the edit to make.

    `hosts`: inventory names of the hosts that the message is about; empty if it is not about hosts.
    """

    exit_code: ClassVar[int] = 70
    kind: ClassVar[str] = "internal"

    def __init__(self, message: str, *, hint: str = "", hosts: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.hosts = hosts

    def __str__(self) -> str:
        return f"{self.message}\n  -> {self.hint}" if self.hint else self.message


class UsageError(DdpPlayError):
    """The command line, the inventory or the job specification is wrong."""

    exit_code = 64
    kind = "usage"


class HostNotReady(DdpPlayError):  # noqa: N818 - the name states what is wrong
    """A host cannot be reached, or lacks something that the job or the command needs."""

    exit_code = 69
    kind = "host_not_ready"


class NotTakenOver(HostNotReady):
    """A take-over could not reach the run's hosts. Their ranks may run, so the run's record stays as it is."""


class HostUnfit(HostNotReady):
    """A check or probe before the start failed on `hosts`; the ranks would fail or hang there. Nothing runs yet."""


class UnknownVersion(HostNotReady):
    """Another version of ddp-play wrote the run's directory on the hosts in `hosts`; it was left alone."""


class CheckFailed(DdpPlayError):  # noqa: N818
    """A check or a provisioning step did not pass."""

    exit_code = 1
    kind = "check_failed"


class Busy(DdpPlayError):  # noqa: N818
    """Slots or ports are taken by another run."""

    exit_code = 75
    kind = "busy"


class SlotsTaken(Busy):
    """Other runs hold the slots that this run needs; `hosts` names their hosts."""


class NameTaken(Busy):
    """Another controller's run has this name on the hosts in `hosts`."""


class Interrupted(DdpPlayError):  # noqa: N818
    """The user interrupted the command or the run."""

    exit_code = 130
    kind = "interrupted"


class DiskFull(DdpPlayError):  # noqa: N818
    """The disk that holds the run's bundle is full; the ranks' files stay on their hosts."""

    kind = "disk_full"


class InternalError(DdpPlayError):
    """ddp-play itself failed."""


def error_class(kind: str) -> type[DdpPlayError]:
    """Class of a `kind` from a run.json; InternalError if the kind is unknown."""
    for cls in (UsageError, HostNotReady, CheckFailed, Busy, Interrupted):
        if cls.kind == kind:
            return cls
    return InternalError
