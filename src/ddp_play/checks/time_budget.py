"""Time that a check may take in all (`--within`), and what is left of it for each of its parts.

Parts come in the order of their importance: hosts reached, readings, ports and packets, the network matrix. What has no
time left is left out, with the reason.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_play.errors import UsageError
from ddp_play.planning.job_values import parse_seconds

MOST_S = 86400.0
LEAST_S = 5.0  # Ansible alone takes about three seconds
# Part of the time, and seconds, for what comes after the measurements: closing ports and channels, Ansible's end.
END_SHARE, END_S = 0.05, 1.0
# Of what is left, for logging in to all hosts: one that hangs must not take the time of the others.
LOGIN_SHARE, LOGIN_LEAST_S = 0.5, 2.0
PART_SHARE, PART_LEAST_S = 0.5, 4.0
READ_LEAST_S, REACH_LEAST_S, CONTAINER_LEAST_S, MATRIX_LEAST_S = 1.0, 2.5, 10.0, 4.0
LATE = "no time left"


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """`until`: end as `time.monotonic` counts, which all processes of a machine share. By default without an end."""

    total_s: float = math.inf
    until: float = math.inf

    @property
    def is_limited(self) -> bool:
        """Whether --within was given."""
        return math.isfinite(self.until)

    @property
    def reason(self) -> str:
        """Why something was left out."""
        return f"{LATE} of --within {self.total_s:g}s"

    def left_s(self) -> float:
        """Seconds that measurements still have."""
        reserve_s = max(END_S, END_SHARE * self.total_s) if self.is_limited else 0.0
        return max(0.0, self.until - reserve_s - time.monotonic())

    def capped(self, limit_s: float) -> float:
        """The limit, or what is left if that is less."""
        return min(limit_s, self.left_s())

    def part_s(self, limit_s: float = math.inf) -> float:
        """Seconds of what all hosts do at once: one that hangs must not take the time of what comes after it."""
        left_s = self.left_s()
        return min(limit_s, left_s, max(PART_LEAST_S, PART_SHARE * left_s))

    def login_s(self, limit_s: float) -> float:
        """Seconds that a host has for its login and facts."""
        return max(LOGIN_LEAST_S, min(limit_s, LOGIN_SHARE * self.left_s())) if self.is_limited else limit_s

    def later(self, seconds: float) -> TimeBudget:
        """The budget with a later end: for the time in which it did not run."""
        return replace(self, until=self.until + seconds)

    def to_text(self) -> str:
        """For an environment variable; empty without an end."""
        return f"{self.total_s!r} {self.until!r}" if self.is_limited else ""


NO_LIMIT = TimeBudget()


def from_text(text: str) -> TimeBudget:
    """From `to_text`."""
    if not text:
        return NO_LIMIT
    total_s, until = text.split()
    return TimeBudget(float(total_s), float(until))


def budget_of(within: str | None) -> TimeBudget:
    """The budget of `--within`, from the start of this process on. UsageError for a duration that cannot be meant."""
    if within is None:
        return NO_LIMIT
    try:
        total_s = float(parse_seconds(within))
    except ValueError as error:
        raise UsageError(f"--within: {error}") from None
    if total_s < LEAST_S:
        hint = f"give {LEAST_S:g}s or more: hosts are asked through Ansible"
        raise UsageError(f"--within {within} cannot be kept", hint=hint)
    if total_s > MOST_S:
        raise UsageError(f"--within {within} is more than a day", hint="give 24h or less, or no --within")
    return TimeBudget(total_s, time.monotonic() - process_age_s() + total_s)


def process_age_s(root: str = "") -> float:
    """Seconds since this process was started, or 0 where the kernel does not tell."""
    try:
        fields = Path(root + "/proc/self/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        uptime_s = float(Path(root + "/proc/uptime").read_text(encoding="ascii").split()[0])
        return max(0.0, uptime_s - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
