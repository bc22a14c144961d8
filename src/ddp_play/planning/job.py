"""Job: the `ddp_job_*` variables of the role, validated and typed."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ddp_play.errors import UsageError
from ddp_play.planning import apptainer_images, job_values, pyxis_images
from ddp_play.planning.job_values import ENV_NAME, HOST_VARIABLES, PREFIX, SECRET_VARIABLES, SITE_VARIABLES
from ddp_play.planning.slurm_settings import SlurmSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

# Default lease of a job with restarts; docs/decisions/0002-attempts.md explains the value.
RESTART_LEASE_S = 60.0

Seconds = Annotated[float, BeforeValidator(job_values.parse_seconds), Field(ge=0)]
Backend = Annotated[str, Field(pattern=r"^(auto|gloo|nccl|mpi|cpu:gloo,cuda:nccl)$")]


class Mount(BaseModel):
    """A bind mount of a host path into every rank container."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(pattern=r"^/[^,]*$")
    target: str = Field(pattern=r"^/[^,]*$")
    read_only: bool = False


class Job(BaseModel):
    """One job. The defaults equal those of the role; a test compares them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: Annotated[tuple[str, ...], BeforeValidator(job_values.split_command)]
    name: str = Field("", pattern=r"^[A-Za-z0-9._ -]{0,48}$")
    runtime: Literal["auto", "docker", "apptainer", "pyxis", "process"] = "auto"
    image: str = ""
    image_pull: Literal["missing", "never", "always"] = "missing"
    registry_username: str = ""
    source: str = ""
    source_include: tuple[str, ...] = ()
    source_exclude: tuple[str, ...] = (".git", "__pycache__", ".venv", "*.pyc", ".mypy_cache", ".ruff_cache")
    source_max_mib: int = Field(200, ge=1)
    workdir: str = ""
    engine: Literal["ssh", "slurm"] = "ssh"
    slurm: SlurmSettings = SlurmSettings()
    hosts: Annotated[tuple[int, int], BeforeValidator(job_values.host_range)] = (0, 0)
    ranks_per_host: Annotated[Literal["auto"] | int, BeforeValidator(job_values.ranks_per_host)] = "auto"
    backend: Backend = "auto"
    init_method: Literal["env", "tcp", "file", "store"] = "env"
    store: Literal["tcp", "file"] = "tcp"
    launcher: Literal["ranks", "torchrun"] = "ranks"
    rdzv: Literal["static", "c10d"] = "static"
    fabric: Literal["auto", "ib", "ethernet"] = "auto"
    network: str = ""
    probe: bool = True
    check: Literal["quick", "none"] = "quick"
    port_range: Annotated[tuple[int, int], BeforeValidator(job_values.port_range)] = job_values.PORT_RANGE
    env: Annotated[dict[str, str | None], BeforeValidator(job_values.env_texts)] = {}
    secret_names: tuple[str, ...] = ()  # globs of names in `env` whose values are secret
    mounts: Annotated[tuple[Mount, ...], BeforeValidator(job_values.mounts)] = ()
    user: str = Field("", pattern=r"^(\d+:\d+)?$")
    groups: tuple[str, ...] = ()
    cpus: float = Field(0, ge=0)
    memory: str = Field("", pattern=r"^(\d+[bkmgBKMG]?)?$")
    shm_size: str = Field("", pattern=r"^(\d+[bkmgBKMG]?)?$")
    gpus: Literal["auto", "none"] = "auto"
    numa: Literal["auto", "none", "node", "socket"] = "auto"
    timeout: Seconds = 300
    host_timeout: Annotated[Seconds, Field(gt=0)] = 30
    grace: Seconds = 30
    failure_grace: Seconds = 2
    signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] = "TERM"
    max_duration: Seconds = 0
    warn_before: Seconds = 0
    warn_signal: Literal["TERM", "INT", "HUP", "USR1", "USR2"] = "USR1"
    idle_timeout: Seconds = 0
    lease: Seconds = 0
    restarts: int = Field(0, ge=0)
    restart_exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()
    spares: tuple[str, ...] = ()
    progress: str = ""
    samples: Seconds = 2
    wandb_resume: bool = False
    hook: Annotated[tuple[str, ...], BeforeValidator(job_values.words)] = ()
    artifacts: tuple[str, ...] = ("**",)
    artifacts_max_mib: int = Field(1024, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        if not self.command or not all(self.command):
            raise ValueError("ddp_job_command is empty; give the command of one rank, for instance [python, train.py]")
        self._check_image()
        first, last = self.port_range
        if not 1024 <= first <= last <= 65535:
            raise ValueError(f"ddp_job_port_range {first}-{last} is not within 1024-65535")
        for name in self.env:
            if not ENV_NAME.fullmatch(name):
                raise ValueError(f"ddp_job_env has {name!r}, which is not a valid name of an environment variable")
        if self.warn_before and not self.warn_before < self.max_duration:
            raise ValueError("ddp_job_warn_before is the time before ddp_job_max_duration and must be shorter than it")
        if self.wandb_resume and self.launcher == "torchrun":
            raise ValueError("ddp_job_wandb_resume gives each rank an id, which torchrun cannot; use launcher ranks")
        self._check_nul()
        return self

    def _check_image(self) -> None:
        if self.runtime in ("docker", "apptainer", "pyxis") and not self.image:
            raise ValueError(f"ddp_job_runtime is {self.runtime} and ddp_job_image is not set")
        if self.chosen_runtime == "apptainer" and (problem := apptainer_images.problem(self.image, self.image_pull)):
            raise ValueError(f"ddp_job_image: {problem}")
        if self.runtime == "pyxis" and (problem := pyxis_images.problem(self.image, self.image_pull)):
            raise ValueError(f"ddp_job_image: {problem}")

    def _check_nul(self) -> None:
        """Refuse NUL bytes: the kernel ends arguments and variables at them."""
        if any("\0" in word for word in self.command):
            raise ValueError("ddp_job_command holds a NUL byte, which no argument can hold")
        if "\0" in self.progress:
            raise ValueError("ddp_job_progress holds a NUL byte, which no path can hold")
        for name, value in self.env.items():
            if "\0" in (value or ""):
                raise ValueError(f"ddp_job_env: {name} holds a NUL byte, which no variable can hold")

    @property
    def chosen_lease(self) -> float:
        """Seconds. A job with restarts always has a lease: it limits how long ranks of a lost host can run."""
        return self.lease or (RESTART_LEASE_S if self.restarts else 0.0)

    @property
    def in_image(self) -> bool:
        """Do ranks have the programs of an image, and not those of the host?"""
        return self.chosen_runtime != "process"

    @property
    def chosen_runtime(self) -> str:
        """`auto`: by the form of the image, which Docker and Apptainer write in other ways; processes without one.

        It never is pyxis, which is a plugin of the cluster.
        """
        if self.runtime != "auto":
            return self.runtime
        if not self.image:
            return "process"
        return "apptainer" if apptainer_images.is_apptainers(self.image) else "docker"


def variable_names() -> tuple[str, ...]:
    """All `ddp_job_*` variables, without the prefix."""
    return (*Job.model_fields, *SECRET_VARIABLES)


def parse_job(values: dict[str, Any], places: Mapping[str, str] | None = None) -> Job:
    """A Job from variable values (without prefix). UsageError names the variable as the user wrote it.

    `places`: where variables (with prefix) were written, such as `train.yml:7`; the error begins with it.
    """
    try:
        return Job(**values)
    except ValidationError as error:
        lines = [_explain(item, places or {}) for item in error.errors()]
        raise UsageError("\n".join(lines), hint="ansible-doc -t role ddp.play.ddp_job") from None


def job_from_json(data: dict[str, Any]) -> Job:
    """Job from job.json, where the ranges of hosts and ports are pairs."""
    job = Job.model_validate({name: value for name, value in data.items() if name != "hosts"})
    low, high = data.get("hosts") or (0, 0)
    return job.model_copy(update={"hosts": (int(low), int(high))})


# In place of the regular expression that a value has to match.
FORMS = {
    "backend": "is one of auto, gloo, nccl, mpi and cpu:gloo,cuda:nccl",
    "user": "is written uid:gid, such as 1000:1000",
    "memory": "is a number with b, k, m or g, such as 64g",
    "shm_size": "is a number with b, k, m or g, such as 8g",
    "slurm.time": "is a time limit as Slurm writes it, such as 90, 1:30:00 or 1-12:00:00, in quotes",
}


def _explain(item: Any, places: Mapping[str, str]) -> str:
    """One pydantic error as a line for the user: place, variable, reason, value."""
    place = places.get(PREFIX + str(item["loc"][0]), "") if item["loc"] else ""
    return _at(place, _mistake(item))


def _at(place: str, mistake: str) -> str:
    return f"{place}: {mistake}" if place else mistake


def _mistake(item: Any) -> str:
    where = ".".join(str(part) for part in item["loc"][:2] if not str(part).startswith(("literal", "function")))
    reason = FORMS.get(where) if item["type"] == "string_pattern_mismatch" else None
    reason = reason or str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return f"{PREFIX}{where} is not set"
    if not where:
        return reason
    value = item.get("input")
    shown = "" if isinstance(value, dict) or repr(value) in reason else f" (it is {value!r})"
    return f"{PREFIX}{where}: {reason[:1].lower()}{reason[1:]}{shown}"


def check_names(places: Mapping[str, str]) -> None:
    """UsageError for unknown `ddp_*` variables, each with the nearest known name, and the file and line, if known."""
    known = {PREFIX + name for name in variable_names()} | set(HOST_VARIABLES)
    unknown = sorted(name for name in places if name not in known and name not in SITE_VARIABLES)
    if not unknown:
        return
    lines = []
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        advice = f"; did you mean {near[0]}?" if near else ""
        lines.append(_at(places[name], f"unknown variable {name}{advice}"))
    without_line = [name for name in unknown if not re.search(r":\d+$", places[name])]  # such as those of JSON
    of_hosts = any(not name.startswith(PREFIX) for name in without_line)
    check = "ddp-play inventory check -i INVENTORY names file and line; " if of_hosts else ""
    raise UsageError("\n".join(lines), hint=f"{check}all of them: ansible-doc -t role ddp.play.ddp_job")
