"""Image distribution by a registry on one of the hosts, set up by the role image_distribution."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import home, write_json
from ddp_play.errors import UsageError
from ddp_play.images.archive import HostImage, local_image, query_all_hosts, raise_failures, saved
from ddp_play.images.content_hash import fingerprint
from ddp_play.planning.limit_names import limit_terms
from ddp_play.provisioning.inventory import load_inventory
from ddp_play.provisioning.playbook_run import plan_playbook, run_playbook

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner
    from ddp_play.images.ssh_access import HostAccess
    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.provisioning.host_role_table import Cell
    from ddp_play.provisioning.inventory import Inventory
    from ddp_play.provisioning.phases import Phase
    from ddp_play.provisioning.playbook_run import PlaybookPlan

GROUP, ROLE = "registry", "image_distribution"
DEFAULT_PORT = 5000


@dataclass(frozen=True, slots=True)
class Registry:
    """Host of the registry, and the address that the other hosts use."""

    host: str
    address: str
    port: int = DEFAULT_PORT
    tls: bool = True

    @property
    def name(self) -> str:
        """Name of the registry in image references. Without TLS, each host forwards a port of its loopback address."""
        return f"{self.address if self.tls else '127.0.0.1'}:{self.port}"


@dataclass(frozen=True, slots=True)
class RegistryResult:
    """Result of `distribute_by_registry`; `reference`: the image by digest."""

    registry: Registry
    content: str
    reference: str
    pulled: tuple[str, ...]
    present: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegistryRequest:
    """Request to distribute the controller's `image`; `request` must not contain a limit."""

    image: str
    request: PlaybookRequest
    limit: str = ""
    tls: bool = True


def choose_registry(inventory: Inventory, *, tls: bool) -> Registry:
    """First host of group `registry`, else of group `ranks`, else of all. Raises UsageError."""
    hosts = inventory.members(GROUP) or inventory.members("ranks") or inventory.hosts
    if not hosts:
        raise UsageError("the inventory has no hosts", hint="ansible-inventory --graph shows it")
    host = hosts[0]
    address = inventory.value(host, f"{ROLE}_registry_address") or inventory.value(host, "ansible_host") or host
    port = int(inventory.value(host, f"{ROLE}_registry_port") or DEFAULT_PORT)
    return Registry(host, str(address), port, tls)


def distribute_by_registry(
    distribution: RegistryRequest,
    hosts: Sequence[HostAccess],
    passwords: Passwords,
    runner: PlaybookRunner,
    *,
    progress: ProgressListener,
) -> RegistryResult:
    """Distribute the image to all hosts, with one digest of one registry. Raises UsageError or HostNotReady."""
    image, local = distribution.image, local_image(distribution.image)
    content = fingerprint(local.attrs)
    registry = choose_registry(load_inventory(distribution.request, passwords), tls=distribution.tls)
    answers = query_all_hosts(image, hosts, progress=progress)
    lacking = tuple(row.host for row in answers if row.content != content or not digest_of(row, registry))
    if lacking or len({digest_of(row, registry) for row in answers}) > 1:
        with saved(local, image, progress=progress) as archive:
            planned = _plan(distribution, archive, registry, passwords)
            error = run_playbook(planned, passwords, runner, _ProvisioningProgress(progress)).error()
        if error is not None:
            raise error
        answers = query_all_hosts(image, hosts, progress=progress)
    present = tuple(row.host for row in answers if row.host not in lacking)
    return RegistryResult(registry, content, _one_digest(image, content, registry, answers), lacking, present)


def digest_of(answer: HostImage, registry: Registry) -> str:
    """Reference of the image in that registry by digest, as the host has it; or empty."""
    return next((name for name in answer.digests if name.startswith(f"{registry.name}/")), "")


def role_variables(image: str, archive: Path, registry: Registry) -> dict[str, object]:
    """Variables of the role for this distribution. The inventory may set further ones."""
    values = {
        "source": "registry",
        "images": [{"name": image if ":" in image.rpartition("/")[2] else f"{image}:latest", "archive": str(archive)}],
        "archive_on_hosts": False,
        "registry_host": registry.host,
        "registry_address": registry.address,
        "registry_port": registry.port,
        "registry_tls": registry.tls,
        "registry_authority_dir": str(home() / "registry"),
    }
    return {f"{ROLE}_{name}": value for name, value in values.items()}


def _plan(distribution: RegistryRequest, archive: Path, registry: Registry, passwords: Passwords) -> PlaybookPlan:
    options = [*distribution.request.options]
    if distribution.limit:
        options += ["--limit", ",".join((*limit_terms(distribution.limit), registry.host))]
    variables = archive.with_name("variables.json")
    write_json(variables, role_variables(distribution.image, archive, registry))
    options += ["--extra-vars", f"@{variables}"]
    request = dataclasses.replace(distribution.request, options=tuple(options), tags=(ROLE,))
    return plan_playbook(request, "provision", passwords)


def _one_digest(image: str, content: str, registry: Registry, answers: list[HostImage]) -> str:
    """Reference by digest that all hosts have. Raises HostNotReady if they differ."""
    found = {digest_of(row, registry) for row in answers}
    wrong = [row for row in answers if row.content != content or not digest_of(row, registry)]
    if not wrong and len(found) > 1:
        wrong = answers
    rows = [f"holds {row.content or 'nothing'} {digest_of(row, registry) or 'from elsewhere'}" for row in wrong]
    raise_failures(image, [HostImage(row.host, error=text) for row, text in zip(wrong, rows, strict=True)])
    return found.pop()


@dataclass(frozen=True, slots=True)
class _ProvisioningProgress:
    """Reports events of provisioning as progress."""

    progress: ProgressListener

    def phase(self, phase: Phase) -> None:
        self.progress.step(f"{phase.name} on {len(phase.hosts)} hosts")

    def task(self, name: str, host: str) -> None:
        self.progress.detail(f"{host}: {name}")

    def waiting(self, host: str, why: str) -> None:
        self.progress.detail(f"{host}: waiting: {why}")

    def cell(self, cell: Cell) -> None:
        self.progress.step(f"{cell.host}: {cell.role} {cell.status}")
