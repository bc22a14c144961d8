"""Creation of a lab from its spec (`lab up`), and its removal (`lab down`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound

from ddp_play.bundle.paths import make_directory
from ddp_play.errors import UsageError
from ddp_play.lab.base_image import ensure_host_image
from ddp_play.lab.docker_client import connect, engine_errors
from ddp_play.lab.host_containers import await_boot, create_host, find_hosts, run_in_parallel, start_hosts
from ddp_play.lab.layout import LABEL, LABEL_STATE, LabPlan, plan_lab
from ddp_play.lab.networks import SubnetTaken, create_networks, remove_networks, taken_networks
from ddp_play.lab.preflight import connect_or_report, first_result, low_limits, machine_problems, raise_limits
from ddp_play.lab.requirements import NO_RANK_IMAGE, RankImageNeeds
from ddp_play.lab.state import LabState, lab_state, locked, make_keys, write_inventory

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.requirements import KernelLimit
    from ddp_play.lab.spec import LabSpec


_NETWORK_ATTEMPTS = 5


@dataclass(frozen=True)
class UpResult:
    """Result of `up`; `created` and `started` hold names of hosts."""

    plan: LabPlan
    state: LabState
    created: tuple[str, ...]
    started: tuple[str, ...]
    limits_raised: tuple[KernelLimit, ...]

    def as_dict(self) -> dict[str, object]:
        """Document of `lab up --json`, without the next commands."""
        spec = self.plan.spec
        return {
            "name": spec.name,
            "inventory": str(self.state.inventory),
            "hosts": [
                {"name": host.name, "address": host.addresses[0], "slots": host.slots} for host in self.plan.hosts
            ],
            "created": list(self.created),
            "started": list(self.started),
            "limits_raised": {limit.name: limit.target for limit in self.limits_raised},
        }


@dataclass(frozen=True)
class Removed:
    """Numbers of hosts, volumes and networks that `down` removed."""

    hosts: int
    volumes: int
    networks: int


def up(spec: LabSpec, *, progress: ProgressListener, rank_image: RankImageNeeds = NO_RANK_IMAGE) -> UpResult:
    """Create and start the missing parts of the lab. Raises UsageError, HostNotReady or Busy.

    `rank_image`: what the caller puts onto the hosts later; what it lacks is refused with what the hosts lack.
    """
    client = connect_or_report(spec)
    state = lab_state(spec.name)
    with locked(state):
        existing = _remove_unfinished_hosts(find_hosts(client, spec.name), state)
        num_missing = max(spec.num_hosts - len(existing), 0)
        plan = first_result(
            lambda: _saved_or_new_plan(client, spec, existing, state),
            machine_problems(client, spec, num_missing, rank_image),
        )
        raised, refused = raise_limits(client, num_missing)
        _report_low_limits(refused, progress=progress)
        image = ensure_host_image(client, spec.distro, engine=spec.engine, progress=progress)
        make_directory(state.directory)
        plan = _create_planned_networks(client, plan, existing, state)
        missing = [host for host in plan.hosts if host.name not in existing]
        state.save_plan(plan)
        make_keys(state, plan)
        if missing:
            progress.step(f"creating {len(missing)} hosts")
            run_in_parallel(lambda host: create_host(client, plan, host, image=image, state=state), missing)
        hosts = find_hosts(client, spec.name)
        stopped = {name: container for name, container in hosts.items() if container.status != "running"}
        start_hosts(list(stopped.values()), progress=progress)
        run_in_parallel(await_boot, list(hosts.values()))
        write_inventory(state, plan)
    return UpResult(plan, state, tuple(host.name for host in missing), tuple(stopped), raised)


def down(name: str, *, force: bool, progress: ProgressListener) -> Removed:
    """Remove everything that has the lab's label, and the lab's state. A missing lab is not an error."""
    client = connect()
    state = lab_state(name)
    with locked(state), engine_errors(f"remove lab {name}"):
        hosts = find_hosts(client, name)
        if not force:
            _refuse_lab_of_other_directory(name, hosts, state)
        label = {"label": f"{LABEL}={name}"}
        if hosts:
            progress.step(f"removing {len(hosts)} hosts")
        run_in_parallel(_remove_container, list(hosts.values()))
        volumes = client.volumes.list(filters=label)
        for volume in volumes:
            volume.remove(force=True)
        num_networks = remove_networks(client, name)
        state.remove()
    return Removed(len(hosts), len(volumes), num_networks)


def _remove_unfinished_hosts(found: dict[str, Container], state: LabState) -> dict[str, Container]:
    """Remove hosts that an interrupted `up` did not start, as their keys may be missing; return the other hosts."""
    _refuse_lab_of_other_directory(state.directory.name, found, state)
    with engine_errors("remove unfinished hosts"):
        run_in_parallel(_remove_container, [container for container in found.values() if container.status == "created"])
    return {name: container for name, container in found.items() if container.status != "created"}


def _saved_or_new_plan(client: DockerClient, spec: LabSpec, existing: dict[str, Container], state: LabState) -> LabPlan:
    """Plan of an earlier `up` with the same options, or a new one. Raises UsageError if options differ."""
    saved = state.load_plan()
    if existing and saved is not None and saved.spec == replace(spec, subnets=spec.subnets or saved.spec.subnets):
        return saved
    if existing:
        raise UsageError(
            f"lab {spec.name} exists already with other options ({_describe(saved)})",
            hint=f"ddp-play lab down --name {spec.name}, or choose another --name",
        )
    remove_networks(client, spec.name)
    plan = plan_lab(spec, taken=taken_networks(client))
    _refuse_used_container_names(client, plan)
    return plan


def _create_planned_networks(
    client: DockerClient, plan: LabPlan, existing: dict[str, Container], state: LabState
) -> LabPlan:
    """Create the plan's networks. If another lab has taken a subnet since then, make a new plan."""
    for _ in range(_NETWORK_ATTEMPTS):
        try:
            create_networks(client, plan)
        except SubnetTaken:
            if plan.spec.subnets:
                raise
            plan = _saved_or_new_plan(client, plan.spec, existing, state)
        else:
            return plan
    raise SubnetTaken("other labs took every subnet that was free a moment ago", hint="try again")


def _describe(plan: LabPlan | None) -> str:
    if plan is None:
        return "its lab.json is missing"
    spec = plan.spec
    slots = ",".join(str(count) for count in spec.slots)
    engine = "" if spec.engine else " --no-docker"
    return (
        f"--hosts {spec.num_hosts} --slots {slots} --distro {spec.distro} --fabrics {spec.num_fabrics}"
        f" --user {spec.user} --engine {spec.job_engine}{engine}"
    )


def _refuse_lab_of_other_directory(name: str, existing: dict[str, Container], state: LabState) -> None:
    for container in existing.values():
        owner = container.labels.get(LABEL_STATE, "")
        if owner != str(state.directory) and Path(owner).exists():
            raise UsageError(
                f"a lab named {name} runs on this engine already and belongs to {owner}",
                hint="choose another --name, or set DDP_PLAY_HOME as it was when that lab was made",
            )


def _refuse_used_container_names(client: DockerClient, plan: LabPlan) -> None:
    with engine_errors("list containers"):
        names = {container.name for container in client.containers.list(all=True, ignore_removed=True)}
    taken = sorted(host.container for host in plan.hosts if host.container in names)
    if taken:
        raise UsageError(
            f"containers with these names exist and do not belong to a lab: {', '.join(taken)}",
            hint="choose another --name",
        )


def _report_low_limits(refused: tuple[KernelLimit, ...], *, progress: ProgressListener) -> None:
    if refused:
        progress.step(low_limits(refused).message)


def _remove_container(container: Container) -> None:
    try:
        container.remove(force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if "already in progress" not in str(error):
            raise
