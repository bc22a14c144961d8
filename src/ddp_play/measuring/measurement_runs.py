"""Running the trainer's measurements on an inventory: one run per backend and device, results from their bundles."""

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
class Way:
    """A backend on a device."""

    backend: str
    device: str  # cpu | cuda
    optional: bool = False  # nobody asked for it: that the ranks do not have it is no failure

    def __str__(self) -> str:
        return f"{self.backend} {self.device}"

    @property
    def suffix(self) -> str:
        """For a run's name."""
        return f"{self.backend}-{self.device}"


@dataclass(frozen=True, slots=True)
class Finished:
    """One way's run: where its bundle is, how it ended, what rank 0 found (empty when it found nothing)."""

    way: Way
    paths: RunPaths
    exit_code: int

    @property
    def result(self) -> dict[str, Any]:
        """Rank 0's result."""
        return read_json(self.paths.result(0))

    @property
    def document(self) -> dict[str, Any]:
        """The run's run.json."""
        return read_json(self.paths.run)

    @property
    def absent(self) -> bool:
        """Was it refused before anything started, and nobody had asked for it?"""
        return self.way.optional and self.document.get("exit_class") in (UsageError.kind, HostNotReady.kind)

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
            "backend": self.way.backend,
            "device": self.way.device,
            "exit_code": self.exit_code,
            "absent": self.absent,
            "message": self.message,
            "network": self.document.get("network") or {},
            "result": self.result,
        }


def ways_to_try(plan: Plan, asked: tuple[str, ...] = (), *, also: tuple[str, ...] = ()) -> tuple[Way, ...]:
    """What can be tried on the hosts of a plan: the backends asked for, else the job's own, else all that fit.

    `also` names backends to try in the last case although only the ranks know whether they have them.
    """
    for name in asked:
        if name not in BACKENDS:
            raise UsageError(f"no backend {name!r}", hint=f"--backend takes {', '.join(BACKENDS)}")
    without = [host.name for host in plan.hosts if not host.gpus]
    on_gpus = not without
    if "nccl" in asked and without:
        raise UsageError(f"--backend nccl needs a GPU on every host; none usable on {', '.join(without)}")
    chosen = asked or ((plan.backend,) if plan.backend_reason.startswith("ddp_job_backend") else ())
    optional = () if chosen else also
    chosen = chosen or (("gloo", "nccl") if on_gpus else ("gloo",))
    devices = {"gloo": ("cpu", "cuda") if on_gpus else ("cpu",), "nccl": ("cuda",)}
    found = [Way(name, device) for name in chosen for device in devices.get(name, ("cpu",))]
    return (*found, *(Way(name, "cpu", optional=True) for name in optional))


def request_for(request: PlaybookRequest, way: Way, command: tuple[str, ...]) -> PlaybookRequest:
    """The playbook with this backend and command; everything else is the inventory's and the caller's."""
    words = [*command, "--backend", "{backend}", "--device", way.device, "--init-method", "{init_method}"]
    ours = json.dumps({"ddp_job_backend": way.backend, "ddp_job_command": words})
    return dataclasses.replace(request, options=(*request.options, "--extra-vars", ours))
