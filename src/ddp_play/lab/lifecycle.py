"""`lab up` and `lab down`: create a lab from its spec, and remove it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound

from ddp_play.errors import UsageError
from ddp_play.lab import machine
from ddp_play.lab.base_image import ensure_host_image, has_image
from ddp_play.lab.base_image_recipe import host_tag
from ddp_play.lab.docker_client import connect, engine_errors, is_local
from ddp_play.lab.host_containers import await_boot, create_host, each, find_hosts, start_hosts
from ddp_play.lab.layout import LABEL, LABEL_STATE, LabPlan, plan_lab
from ddp_play.lab.networks import SubnetTaken, create_networks, remove_networks, taken_networks
from ddp_play.lab.requirements import KernelLimit, check_room, kernel_limits
from ddp_play.lab.state import LabState, lab_state, locked, make_keys, write_inventory

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from ddp_play.lab.progress import Progress
    from ddp_play.lab.spec import LabSpec


_CLAIM_TRIES = 5


@dataclass(frozen=True)
class UpResult:
    """What `up` found or made; the lists hold host names."""

    plan: LabPlan
    state: LabState
    created: tuple[str, ...]
    started: tuple[str, ...]
    limits_raised: tuple[KernelLimit, ...]
    limits_refused: tuple[KernelLimit, ...]


@dataclass(frozen=True)
class Removed:
    """How many of each kind `down` removed."""

    hosts: int
    volumes: int
    networks: int


def up(spec: LabSpec, *, progress: Progress) -> UpResult:
    """Create and start what is missing of the lab. Raises UsageError, HostNotReady or Busy."""
    client = connect()
    state = lab_state(spec.name)
    with locked(state):
        existing = _whole_hosts(find_hosts(client, spec.name), state)
        plan = _settle_plan(client, spec, existing, state)
        num_missing = len(plan.hosts) - len(existing)
        _check_room(client, spec, num_missing)
        raised, refused = _raise_limits(client, num_missing)
        image = ensure_host_image(client, spec.distro, engine=spec.engine, progress=progress)
        state.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        plan = _claim_networks(client, plan, existing, state)
        missing = [host for host in plan.hosts if host.name not in existing]
        state.save_plan(plan)
        make_keys(state, plan)
        if missing:
            progress.step(f"creating {len(missing)} hosts")
            each(lambda host: create_host(client, plan, host, image=image, state=state), missing)
        hosts = find_hosts(client, spec.name)
        stopped = {name: container for name, container in hosts.items() if container.status != "running"}
        start_hosts(list(stopped.values()), progress=progress)
        each(await_boot, list(hosts.values()))
        write_inventory(state, plan)
    return UpResult(plan, state, tuple(host.name for host in missing), tuple(stopped), raised, refused)


def down(name: str, *, force: bool, progress: Progress) -> Removed:
    """Remove everything with the lab's label, and its state; a missing lab is no error."""
    client = connect()
    state = lab_state(name)
    with locked(state), engine_errors(f"remove lab {name}"):
        hosts = find_hosts(client, name)
        if not force:
            _refuse_foreign(name, hosts, state)
        label = {"label": f"{LABEL}={name}"}
        if hosts:
            progress.step(f"removing {len(hosts)} hosts")
        each(_remove_container, list(hosts.values()))
        volumes = client.volumes.list(filters=label)
        for volume in volumes:
            volume.remove(force=True)
        num_networks = remove_networks(client, name)
        state.remove()
    return Removed(len(hosts), len(volumes), num_networks)


def _whole_hosts(found: dict[str, Container], state: LabState) -> dict[str, Container]:
    """Remove hosts that an interrupted `up` created and did not start: their keys may be missing."""
    _refuse_foreign(state.directory.name, found, state)
    with engine_errors("remove unfinished hosts"):
        each(_remove_container, [container for container in found.values() if container.status == "created"])
    return {name: container for name, container in found.items() if container.status != "created"}


def _settle_plan(client: DockerClient, spec: LabSpec, existing: dict[str, Container], state: LabState) -> LabPlan:
    """Plan of an earlier `up` with the same options, or a new one. Raises UsageError if options differ."""
    saved = state.load_plan()
    if existing and saved is not None and saved.spec == replace(spec, subnets=spec.subnets or saved.spec.subnets):
        return saved
    if existing:
        raise UsageError(
            f"lab {spec.name} is there already, with other options ({_describe(saved)})",
            hint=f"ddp-play lab down --name {spec.name}, or choose another --name",
        )
    remove_networks(client, spec.name)
    plan = plan_lab(spec, taken=taken_networks(client))
    _refuse_taken_names(client, plan)
    return plan


def _claim_networks(client: DockerClient, plan: LabPlan, existing: dict[str, Container], state: LabState) -> LabPlan:
    """Create the plan's networks; if another lab took a subnet meanwhile, plan again."""
    for _ in range(_CLAIM_TRIES):
        try:
            create_networks(client, plan)
        except SubnetTaken:
            if plan.spec.subnets:
                raise
            plan = _settle_plan(client, plan.spec, existing, state)
        else:
            return plan
    raise SubnetTaken("other labs took every subnet that was free a moment ago", hint="try again")


def _describe(plan: LabPlan | None) -> str:
    if plan is None:
        return "its lab.json is gone"
    spec = plan.spec
    slots = ",".join(str(count) for count in spec.slots)
    engine = "" if spec.engine else " --no-docker"
    return (
        f"--hosts {spec.num_hosts} --slots {slots} --distro {spec.distro} --fabrics {spec.num_fabrics}"
        f" --user {spec.user}{engine}"
    )


def _refuse_foreign(name: str, existing: dict[str, Container], state: LabState) -> None:
    for container in existing.values():
        owner = container.labels.get(LABEL_STATE, "")
        if owner != str(state.directory) and Path(owner).exists():
            raise UsageError(
                f"a lab named {name} runs on this engine already and belongs to {owner}",
                hint="choose another --name, or set DDP_PLAY_HOME as it was when that lab was made",
            )


def _refuse_taken_names(client: DockerClient, plan: LabPlan) -> None:
    with engine_errors("list containers"):
        names = {container.name for container in client.containers.list(all=True, ignore_removed=True)}
    taken = sorted(host.container for host in plan.hosts if host.container in names)
    if taken:
        raise UsageError(
            f"containers of this name exist and are not of a lab: {', '.join(taken)}",
            hint="choose another --name",
        )


def _check_room(client: DockerClient, spec: LabSpec, num_new_hosts: int) -> None:
    with engine_errors("describe itself"):
        root = str(client.info().get("DockerRootDir") or "/var/lib/docker")
    cached = has_image(client, host_tag(spec.distro, engine=spec.engine))
    free = machine.read_machine(root, is_local=is_local())
    check_room(free, num_new_hosts=num_new_hosts, engine=spec.engine, image_cached=cached)


def _raise_limits(client: DockerClient, num_new_hosts: int) -> tuple[tuple[KernelLimit, ...], tuple[KernelLimit, ...]]:
    if not is_local() or num_new_hosts == 0:
        return (), ()
    with engine_errors("list containers"):
        present = len(client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True))
    return machine.raise_limits(kernel_limits(present + num_new_hosts))


def _remove_container(container: Container) -> None:
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if "already in progress" not in str(error):
            raise
