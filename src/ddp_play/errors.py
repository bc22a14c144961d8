"""Every error ddp-play raises on purpose, by who must act.

    DdpPlayError
    ├── UsageError          the command line or the job is wrong           exit 64
    ├── HostNotReady        a host is unreachable or lacks something       exit 69
    ├── CheckFailed         a check or a provisioning step said no         exit 1
    ├── Busy                slots or ports are taken: try again later      exit 75
    │   ├── SlotsTaken      by other runs on these hosts
    │   └── NameTaken       another run of the same name is on these hosts
    ├── Interrupted         the user asked to stop                         exit 130
    ├── DiskFull            no room for the bundle on this machine         exit 70
    └── InternalError       our own failure, with a log to read            exit 70

A rank's own failure is no exception: it is an Outcome with a verdict, and its exit code is the rank's.
The boundary that turns classes into exit codes is `ddp_play.cli.error_boundary`; nothing below it exits.
"""

from __future__ import annotations

from typing import ClassVar


class DdpPlayError(Exception):
    """What happened and where in the message; `hint` is the command or the edit that helps.

    `hosts`: inventory names of the hosts that said no, where the message is about some.
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


class HostNotReady(DdpPlayError):  # noqa: N818 - reads as the sentence it stands for
    """A host cannot be reached, or reached but not used as asked."""

    exit_code = 69
    kind = "host_not_ready"


class CheckFailed(DdpPlayError):  # noqa: N818
    """A check or a provisioning step did not pass."""

    exit_code = 1
    kind = "check_failed"


class Busy(DdpPlayError):  # noqa: N818
    """Slots or ports are taken by another run."""

    exit_code = 75
    kind = "busy"


class SlotsTaken(Busy):
    """Other runs hold the slots that this one needs; `hosts` tells where."""


class NameTaken(Busy):
    """Another controller's run has this name on the hosts; `hosts` tells where."""


class Interrupted(DdpPlayError):  # noqa: N818
    """The user interrupted us."""

    exit_code = 130
    kind = "interrupted"


class DiskFull(DdpPlayError):  # noqa: N818
    """The disk that holds the run's bundle is full; the ranks' files wait on their hosts."""

    kind = "disk_full"


class InternalError(DdpPlayError):
    """We failed, not the user."""


def error_class(kind: str) -> type[DdpPlayError]:
    """The class whose `kind` was written into a run.json; InternalError when unknown."""
    for cls in (UsageError, HostNotReady, CheckFailed, Busy, Interrupted):
        if cls.kind == kind:
            return cls
    return InternalError
