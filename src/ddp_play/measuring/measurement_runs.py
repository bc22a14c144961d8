"""Runs of the trainer's measurements: the backends and devices to measure, and the results in the bundles."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import HostNotReady, UsageError

if TYPE_CHECKING:
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
    """Run of one variant that has ended, with its bundle and exit code."""

    variant: Variant
    paths: RunPaths
    exit_code: int

    @property
    def result(self) -> dict[str, Any]:
        """Result that rank 0 wrote; empty if there is none."""
        return read_json(self.paths.result(0))

    @property
    def document(self) -> dict[str, Any]:
        """The run's run.json."""
        return read_json(self.paths.run)

    @property
    def absent(self) -> bool:
        """Whether an optional variant was refused before any rank started."""
        return self.variant.optional and self.document.get("exit_class") in (UsageError.kind, HostNotReady.kind)

    @property
    def message(self) -> str:
        """The first line of the run's verdict."""
        lines = str((self.document.get("verdict") or {}).get("message", "")).splitlines()
        return lines[0] if lines else ""

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
