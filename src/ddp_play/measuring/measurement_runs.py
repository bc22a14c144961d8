"""Runs of the trainer's measurements: the backends and devices to measure, and the results in the bundles."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.measuring.crashed_cases import Crash, crash_in, merged_result, rows_before

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.ansible.runner import PlaybookRequest
    from ddp_play.planning.plan_document import Plan

BACKENDS = ("gloo", "nccl", "mpi")


@dataclass(frozen=True, slots=True)
class Variant:
    """Backend and device of one measurement run."""

    backend: str
    device: str  # cpu | cuda
    optional: bool = False  # not requested: it is no failure if the ranks do not have the backend

    def __str__(self) -> str:
        return f"{self.backend} {self.device}"

    @property
    def suffix(self) -> str:
        """Suffix for the run's name."""
        return f"{self.backend}-{self.device}"


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """Run of one variant that has ended, with its bundle and exit code, and the runs that went on after crashes."""

    variant: Variant
    paths: RunPaths
    exit_code: int
    further: tuple[FinishedRun, ...] = ()
    merged: dict[str, Any] = field(default_factory=dict)  # result of all these runs, if a rank crashed

    @property
    def result(self) -> dict[str, Any]:
        """Result that rank 0 wrote at its end, or that of all runs of the variant; empty if there is none."""
        found = self.merged or read_json(self.paths.result(0))
        return {} if found.get("status") == "running" else found

    @property
    def rank_results(self) -> dict[int, dict[str, Any]]:
        """What each rank wrote last, at its end or before."""
        return {row["rank"]: read_json(self.paths.result(row["rank"])) for row in self.document.get("ranks") or ()}

    @property
    def document(self) -> dict[str, Any]:
        """The run's run.json."""
        return read_json(self.paths.run)

    @property
    def bundles(self) -> tuple[RunPaths, ...]:
        """The bundles of this run and of those that went on after it."""
        return (self.paths, *(run.paths for run in self.further))

    @property
    def crash(self) -> Crash | None:
        """The case that crashed in this run."""
        return crash_in(self.document, self.rank_results)

    @property
    def absent(self) -> bool:
        """Whether an optional variant was refused before any rank started."""
        return self.variant.optional and self.document.get("exit_class") in (UsageError.kind, HostNotReady.kind)

    @property
    def message(self) -> str:
        """The first line of the run's verdict."""
        lines = str((self.document.get("verdict") or {}).get("message", "")).splitlines()
        return lines[0] if lines else ""

    @property
    def failure(self) -> str:
        """Why the variant has no result, or not one of all cases; empty if it has."""
        if self.absent:
            return f"{self.variant}: not available here: {self.message}"
        last = self.further[-1] if self.further else self
        reason = last.message or f"exit code {last.exit_code}"
        if not self.result:
            return f"{self.variant}: no result: {reason}"
        return f"{self.variant}: incomplete: {reason}" if self.result.get("status") == "incomplete" else ""

    def to_json(self) -> dict[str, Any]:
        """For --json and the bundle."""
        return {
            "run": self.paths.run_id,
            "bundle": str(self.paths.root),
            "backend": self.variant.backend,
            "device": self.variant.device,
            "exit_code": self.exit_code,
            "absent": self.absent,
            "message": self.message,
            "network": self.document.get("network") or {},
            "result": self.result,
        }


def failure_lines(finished: Sequence[FinishedRun]) -> list[str]:
    """A line for each variant without a result or with a part of one."""
    return [run.failure for run in finished if run.failure]


@dataclass(frozen=True, slots=True)
class NextRun:
    """Another run of a variant: what its command has at its end, and why there is one."""

    arguments: tuple[str, ...]
    reason: str


def run_after_crash(runs: Sequence[FinishedRun]) -> NextRun | None:
    """The run of `collectives` that goes on after the newest of these; None if there was no crash, or no progress."""
    crashes = [run.crash for run in runs[-2:]]
    newest = crashes[-1]
    if newest is None or not newest.rest or (len(crashes) > 1 and crashes[0] and not newest.follows(crashes[0])):
        return None
    reason = f"{newest.detail} in {newest.case}; another run tries the collectives after it"
    return NextRun(("--after", newest.case), reason)


def as_one(runs: Sequence[FinishedRun]) -> FinishedRun:
    """The runs of one variant as one: all but the last ended with a crash, and the next went on after it."""
    first, last = runs[0], runs[-1]
    crashes = [run.crash for run in runs]
    if crashes[0] is None:
        return first
    parts = [
        [*rows_before(crash, run.rank_results), crash.to_row()]
        for run, crash in zip(runs, crashes, strict=True)
        if crash is not None
    ]
    if crashes[-1] is None:
        parts.append(last.result.get("collectives", []))
    return dataclasses.replace(
        first,
        exit_code=1 if crashes[-1] else last.exit_code or 1,
        further=tuple(runs[1:]),
        merged=merged_result(first.rank_results[crashes[0].rank], parts),
    )


def measurement_variants(
    plan: Plan, requested: tuple[str, ...] = (), *, optional_backends: tuple[str, ...] = ()
) -> tuple[Variant, ...]:
    """Variants to measure on the hosts of a plan. Raises UsageError for a backend that cannot run there.

    The backends are the requested ones, else the job's own, else all that fit the hosts. In the last case
    `optional_backends` are added: only the ranks know whether they have them.
    """
    for name in requested:
        if name not in BACKENDS:
            raise UsageError(f"no backend {name!r}", hint=f"--backend takes {', '.join(BACKENDS)}")
    without = [host.name for host in plan.hosts if not host.gpus]
    on_gpus = not without
    if "nccl" in requested and without:
        raise UsageError(f"--backend nccl needs a GPU on every host; none usable on {', '.join(without)}")
    chosen = requested or ((plan.backend,) if plan.backend_reason.startswith("ddp_job_backend") else ())
    optional = () if chosen else optional_backends
    chosen = chosen or (("gloo", "nccl") if on_gpus else ("gloo",))
    devices = {"gloo": ("cpu", "cuda") if on_gpus else ("cpu",), "nccl": ("cuda",)}
    found = [Variant(name, device) for name in chosen for device in devices.get(name, ("cpu",))]
    return (*found, *(Variant(name, "cpu", optional=True) for name in optional))


def request_for(request: PlaybookRequest, variant: Variant, command: tuple[str, ...]) -> PlaybookRequest:
    """Request with this backend and command; inventory and caller decide everything else."""
    arguments = [*command, "--backend", "{backend}", "--device", variant.device, "--init-method", "{init_method}"]
    variables = json.dumps({"ddp_job_backend": variant.backend, "ddp_job_command": arguments})
    return dataclasses.replace(request, options=(*request.options, "--extra-vars", variables))
