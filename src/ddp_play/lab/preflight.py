"""Checks of the machine before `lab up` creates anything: everything that is missing is reported at once."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, TypeVar

from ddp_play.errors import DdpPlayError, HostNotReady
from ddp_play.lab import machine_resources
from ddp_play.lab.base_image import has_image, source_problem
from ddp_play.lab.base_image_recipe import host_tag
from ddp_play.lab.docker_client import connect, engine_errors, is_local
from ddp_play.lab.layout import LABEL
from ddp_play.lab.requirements import NO_RANK_IMAGE, KernelLimit, RankImageNeeds, kernel_limits, resource_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from docker import DockerClient

    from ddp_play.lab.spec import LabSpec

# First version of the engine's API with private cgroup namespaces: 20.10.
_LEAST_API = (1, 41)
_LEAST_ENGINE = "20.10"
_PROGRAMS = {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}
T = TypeVar("T")


def connect_or_report(spec: LabSpec) -> DockerClient:
    """Client of the engine. Without an engine, its error names everything else that is missing too."""
    try:
        return connect()
    except HostNotReady as error:
        # The engine's directory is unknown, so that free disk space cannot be told.
        machine = machine_resources.read_resources("", is_local=is_local())
        others = resource_problems(machine, num_new_hosts=spec.num_hosts, engine=spec.engine, image_cached=True)
        raise as_one([error, *program_problems(), *others]) from None


def machine_problems(
    client: DockerClient, spec: LabSpec, num_new_hosts: int, rank_image: RankImageNeeds = NO_RANK_IMAGE
) -> list[DdpPlayError]:
    """What the machine lacks for this many new hosts and the image of their ranks; of the hosts none if none is new."""
    if num_new_hosts == 0:
        return [*rank_image.problems]
    with engine_errors("describe itself"):
        info, api = client.info(), str(client.version().get("ApiVersion", ""))
    cached = has_image(client, host_tag(spec.distro, engine=spec.engine))
    root = str(info.get("DockerRootDir") or "/var/lib/docker")
    machine = machine_resources.read_resources(root, is_local=is_local())
    found: list[DdpPlayError] = [*program_problems(), *engine_problems(info.get("SecurityOptions") or (), api)]
    if not cached and (problem := source_problem(client, spec.distro)) is not None:
        found.append(problem)
    found += resource_problems(
        machine,
        num_new_hosts=num_new_hosts,
        engine=spec.engine,
        image_cached=cached,
        rank_image=rank_image,
    )
    found += rank_image.problems
    # Low limits alone are no reason to refuse: fewer hosts than computed may work all the same.
    if found and (low := machine_resources.unraisable(_limits(client, num_new_hosts))):
        found.append(low_limits(low))
    return found


def program_problems() -> list[HostNotReady]:
    """Missing programs of this machine."""
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if not missing:
        return []
    packages = " ".join(dict.fromkeys(_PROGRAMS[name] for name in missing))
    return [HostNotReady(f"{' and '.join(missing)} not found", hint=f"apt-get install {packages}")]


def engine_problems(security_options: Sequence[str], api: str) -> list[HostNotReady]:
    """What the engine cannot do, from its description and the version of its API."""
    found = []
    if any("name=rootless" in option for option in security_options):
        found.append(
            HostNotReady(
                "the Docker engine is a rootless one: containers with systemd and an engine of their own do not start",
                hint="DOCKER_HOST=unix:///var/run/docker.sock uses the engine of root",
            )
        )
    if api and tuple(int(part) for part in api.split(".")) < _LEAST_API:
        found.append(
            HostNotReady(f"the Docker engine is older than {_LEAST_ENGINE} (API {api})", hint="install a newer one")
        )
    return found


def low_limits(limits: Sequence[KernelLimit]) -> HostNotReady:
    """Kernel limits that are low, and the command that raises them."""
    settings = " ".join(f"{limit.name}={limit.target}" for limit in limits)
    sudo = "" if os.geteuid() == 0 else "sudo "
    return HostNotReady(
        f"kernel limits are low for this many hosts, whose systemd may fail; to raise them: {sudo}sysctl -w {settings}"
    )


def raise_limits(client: DockerClient, num_new_hosts: int) -> tuple[tuple[KernelLimit, ...], tuple[KernelLimit, ...]]:
    """Raise kernel limits that are too low; return (raised, refused)."""
    return machine_resources.raise_limits(_limits(client, num_new_hosts))


def first_result(make: Callable[[], T], problems: Sequence[DdpPlayError]) -> T:
    """Result of `make`. Raises its error and the other problems as one."""
    try:
        result = make()
    except DdpPlayError as error:
        raise as_one([error, *problems]) from None
    if problems:
        raise as_one(problems)
    return result


def as_one(problems: Sequence[DdpPlayError]) -> DdpPlayError:
    """The only problem, or an error with a line for each and the command that helps."""
    if len(problems) == 1:
        return problems[0]
    lines = [f"this lab cannot be started, for {len(problems)} reasons"]
    for number, problem in enumerate(problems, start=1):
        lines.append(f"  {number}. {problem.message}")
        lines += [f"     -> {problem.hint}"] if problem.hint else []
    return HostNotReady("\n".join(lines))


def _limits(client: DockerClient, num_new_hosts: int) -> tuple[KernelLimit, ...]:
    if not is_local() or num_new_hosts == 0:
        return ()
    with engine_errors("list containers"):
        present = len(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))
    return kernel_limits(present + num_new_hosts)
