"""Job: the `ddp_job_*` variables of the role, validated and typed."""

from __future__ import annotations

import difflib
import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "ddp_job_"
HOST_VARIABLES = ("ddp_slots", "ddp_interface", "ddp_shared_dir", "ddp_python", "ddp_state_dir")
# Of all roles of provisioning; a job has no use for them.
SITE_VARIABLES = ("ddp_proxy", "ddp_no_proxy", "ddp_mirror_url", "ddp_disrupt")
PLACEHOLDERS = (
    "rank",
    "local_rank",
    "world_size",
    "local_world_size",
    "init_method",
    "backend",
    "head_addr",
    "head_port",
    "run_id",
    "python",
)
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Default lease of a job with restarts; docs/decisions/0002-attempts.md explains the value.
RESTART_LEASE_S = 60.0
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_seconds(value: Any) -> Any:
    """90, "90", "90s", "15m", "2h", "1d" -> seconds."""
    if isinstance(value, bool) or value is None:
        raise ValueError("is a number of seconds or a text like 90s, 15m, 2h")
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
        if not match:
            raise ValueError(f"{value!r} is not a duration; write seconds or 90s, 15m, 2h, 1d")
        return float(match[1]) * _UNITS[match[2]]
    return value


def _split_command(value: Any) -> Any:
    """A command is a list, or a string that is split like in a shell."""
    if isinstance(value, str):
        return shlex.split(value)
    if isinstance(value, list):
        return [str(item) if isinstance(item, int | float) and not isinstance(item, bool) else item for item in value]
    return value


def _port_range(value: Any) -> Any:
    """ "29500-29999" or [29500, 29999] -> a pair."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (value, value)
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+))?\s*", value)
        if not match:
            raise ValueError(f"{value!r} is not a port range; write 29500-29999")
        return (int(match[1]), int(match[2] or match[1]))
    return value


def _host_range(value: Any) -> Any:
    """`all`, 4, "2..4" -> (minimum, maximum); 0 means all hosts as the minimum, no limit as the maximum."""
    if value in ("all", None, ""):
        return (0, 0)
    match = re.fullmatch(r"\s*(\d+)\s*(?:\.\.\s*(\d*))?\s*", str(value))
    low = int(match[1]) if match else 0
    high = low if match is None or ".." not in str(value) else int(match[2] or 0)
    if low < 1 or 0 < high < low:
        raise ValueError(f"{value!r} is not a number of hosts; write all, 4, 2..4 or 2..")
    return (low, high)


def _ranks_per_host(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lstrip("-").isdigit():
        value = int(value)
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"is `auto` or a number from 1 up, not {value!r}")
    return value


def _env_texts(value: Any) -> Any:
    """Environment values as strings; None (a bare key) stays None."""
    if not isinstance(value, dict):
        return value
    return {str(k): env_text(v) for k, v in value.items()}


def env_text(value: Any) -> Any:
    """Number as a string, boolean as 1 or 0; other values are returned unchanged."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value) if isinstance(value, int | float) else value


def _mounts(value: Any) -> Any:
    """["/data:/data:ro"] or [{source, target, read_only}]."""
    if not isinstance(value, list):
        return value
    return [_mount(item) for item in value]


def _mount(item: Any) -> Any:
    if not isinstance(item, str):
        return item
    parts = item.split(":")
    if len(parts) not in (2, 3) or (len(parts) == 3 and parts[2] not in ("ro", "rw")):
        raise ValueError(f"{item!r} is not source:target or source:target:ro")
    return {"source": parts[0], "target": parts[1], "read_only": parts[2:] == ["ro"]}


Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0)]
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

    command: Annotated[tuple[str, ...], BeforeValidator(_split_command)]
    name: str = Field("", pattern=r"^[A-Za-z0-9._ -]{0,48}$")
    runtime: Literal["auto", "docker", "process"] = "auto"
    image: str = ""
    image_pull: Literal["missing", "never", "always"] = "missing"
    registry_username: str = ""
    source: str = ""
    source_include: tuple[str, ...] = ()
    source_exclude: tuple[str, ...] = (".git", "__pycache__", ".venv", "*.pyc", ".mypy_cache", ".ruff_cache")
    source_max_mib: int = Field(200, ge=1)
    workdir: str = ""
    hosts: Annotated[tuple[int, int], BeforeValidator(_host_range)] = (0, 0)
    ranks_per_host: Annotated[Literal["auto"] | int, BeforeValidator(_ranks_per_host)] = "auto"
    backend: Backend = "auto"
    init_method: Literal["env", "tcp", "file", "store"] = "env"
    store: Literal["tcp", "file"] = "tcp"
    launcher: Literal["ranks", "torchrun"] = "ranks"
    rdzv: Literal["static", "c10d"] = "static"
    fabric: Literal["auto", "ib", "ethernet"] = "auto"
    network: str = ""
    probe: bool = True
    port_range: Annotated[tuple[int, int], BeforeValidator(_port_range)] = (29500, 29999)
    env: Annotated[dict[str, str | None], BeforeValidator(_env_texts)] = {}
    secret_names: tuple[str, ...] = ()  # globs of names in `env` whose values are secret
    mounts: Annotated[tuple[Mount, ...], BeforeValidator(_mounts)] = ()
    user: str = Field("", pattern=r"^(\d+:\d+)?$")
    groups: tuple[str, ...] = ()
    cpus: float = Field(0, ge=0)
    memory: str = Field("", pattern=r"^(\d+[bkmgBKMG]?)?$")
    shm_size: str = Field("", pattern=r"^(\d+[bkmgBKMG]?)?$")
    gpus: Literal["auto", "none"] = "auto"
    timeout: Seconds = 300
    host_timeout: Seconds = 30
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
    artifacts: tuple[str, ...] = ("**",)
    artifacts_max_mib: int = Field(1024, ge=0)

    @model_validator(mode="after")
    def _consistent(self) -> Job:
        if not self.command or not all(self.command):
            raise ValueError("ddp_job_command is empty; give the command of one rank, for instance [python, train.py]")
        if self.runtime == "docker" and not self.image:
            raise ValueError("ddp_job_runtime is docker and ddp_job_image is not set")
        first, last = self.port_range
        if not 1024 <= first <= last <= 65535:
            raise ValueError(f"ddp_job_port_range {first}-{last} is not within 1024-65535")
        for name in self.env:
            if not ENV_NAME.fullmatch(name):
                raise ValueError(f"ddp_job_env has {name!r}, which is not a valid name of an environment variable")
        if self.warn_before and not self.warn_before < self.max_duration:
            raise ValueError("ddp_job_warn_before is the time before ddp_job_max_duration and must be shorter than it")
        self._check_nul()
        return self

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
    def chosen_runtime(self) -> str:
        """`auto`: containers where an image is given, plain processes otherwise."""
        if self.runtime != "auto":
            return self.runtime
        return "docker" if self.image else "process"


# Variables that are read separately and are not part of the job, because they must never be printed.
SECRET_VARIABLES = ("secrets", "registry_password")


def variable_names() -> tuple[str, ...]:
    """All `ddp_job_*` variables, without the prefix."""
    return (*Job.model_fields, *SECRET_VARIABLES)


def parse_job(values: dict[str, Any]) -> Job:
    """A Job from variable values (without prefix). UsageError names the variable as the user wrote it."""
    try:
        return Job(**values)
    except ValidationError as error:
        raise UsageError(
            "\n".join(_explain(item) for item in error.errors()), hint="ansible-doc -t role ddp.play.ddp_job"
        ) from None


def job_from_json(data: dict[str, Any]) -> Job:
    """Job from job.json, where the ranges of hosts and ports are pairs."""
    job = Job.model_validate({name: value for name, value in data.items() if name != "hosts"})
    low, high = data.get("hosts") or (0, 0)
    return job.model_copy(update={"hosts": (int(low), int(high))})


def _explain(item: Any) -> str:
    """One pydantic error as a line for the user: variable, reason, value."""
    where = ".".join(str(part) for part in item["loc"][:2] if not str(part).startswith(("literal", "function")))
    reason = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return f"{PREFIX}{where} is not set"
    if not where:
        return reason
    value = item.get("input")
    shown = "" if isinstance(value, dict) or repr(value) in reason else f" (it is {value!r})"
    return f"{PREFIX}{where}: {reason[:1].lower()}{reason[1:]}{shown}"


def check_names(names: Iterable[str]) -> None:
    """UsageError for unknown `ddp_*` variables, each with the nearest known name."""
    known = {PREFIX + name for name in variable_names()} | set(HOST_VARIABLES)
    unknown = sorted(name for name in names if name not in known and name not in SITE_VARIABLES)
    if not unknown:
        return
    lines = []
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
        lines.append(f"unknown variable {name}" + (f"; did you mean {near[0]}?" if near else ""))
    raise UsageError("\n".join(lines), hint="all of them: ansible-doc -t role ddp.play.ddp_job")
