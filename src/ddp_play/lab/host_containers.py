"""Containers of lab hosts: creation, start, and the wait for their boot."""

from __future__ import annotations

import io
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from docker.errors import APIError, NotFound
from docker.types import EndpointConfig

from ddp_play.errors import HostNotReady
from ddp_play.lab.docker_client import engine_errors
from ddp_play.lab.layout import LABEL, LABEL_HOST, LABEL_STATE
from ddp_play.lab.spec import SHARED_DIR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from docker import DockerClient
    from docker.models.containers import Container

    from ddp_play.lab.layout import Host, LabPlan
    from ddp_play.lab.progress_listener import ProgressListener
    from ddp_play.lab.state import LabState

# A list instead of --privileged, which needs SYS_RESOURCE: some machines and CI runners do not have it.
_CAPABILITIES = [
    "SYS_ADMIN",
    "NET_ADMIN",
    "SYS_PTRACE",
    "SYS_CHROOT",
    "MKNOD",
    "DAC_READ_SEARCH",
    "SYS_NICE",
    "IPC_LOCK",
    "NET_RAW",
    "AUDIT_CONTROL",
    "AUDIT_WRITE",
    "SYSLOG",
    "SYS_BOOT",
    "LINUX_IMMUTABLE",
]
# `reboot` inside a host ends its container, and the engine starts it again. `docker kill` ends it for good.
_RESTART_POLICY: Any = {"Name": "unless-stopped"}
_SHM_SIZE = "1g"
_SLOW_RATE = "200mbit"
_BOOT_TIMEOUT_S = 180
_WORKERS = 4
_OPS_UID = 1000
T = TypeVar("T")


def find_hosts(client: DockerClient, lab: str) -> dict[str, Container]:
    """Containers of a lab by host name, running or not. Raises HostNotReady."""
    with engine_errors(f"list the containers of lab {lab}"):
        found = client.containers.list(all=True, filters={"label": f"{LABEL}={lab}"}, ignore_removed=True)
    return {container.labels.get(LABEL_HOST, container.name or ""): container for container in found}


def create_host(client: DockerClient, plan: LabPlan, host: Host, *, image: str, state: LabState) -> None:
    """Create a host with volumes, addresses and SSH keys, but do not start it. Raises HostNotReady."""
    first, *others = zip(plan.networks, host.addresses, strict=True)
    with engine_errors(f"create {host.container}"):
        for volume in (host.volume, plan.shared_volume):
            client.volumes.create(name=volume, labels=plan.labels)
        container = client.containers.create(
            image,
            name=host.container,
            hostname=host.name,
            labels={**plan.labels, LABEL_HOST: host.name, LABEL_STATE: str(state.directory)},
            cap_add=_CAPABILITIES,
            security_opt=["seccomp=unconfined", "apparmor=unconfined"],
            device_cgroup_rules=["a *:* rwm"],
            cgroupns="private",
            tmpfs={"/run": "exec,mode=755", "/tmp": "exec,mode=1777"},  # noqa: S108 - inside the container
            volumes={
                host.volume: {"bind": "/var/lib/docker", "mode": "rw"},
                plan.shared_volume: {"bind": SHARED_DIR, "mode": "rw"},
            },
            shm_size=_SHM_SIZE,
            network=first[0].name,
            networking_config={first[0].name: _endpoint(client, first[1], host.name)},
            restart_policy=_RESTART_POLICY,
        )
        for network, address in others:
            client.networks.get(network.name).connect(container, ipv4_address=address)
        container.put_archive("/", _host_files(plan, host, state))


def start_hosts(containers: Sequence[Container], *, progress: ProgressListener) -> None:
    """Start the hosts and return at once; `await_boot` waits for their boot."""
    if not containers:
        return
    progress.step(f"starting {len(containers)} hosts")
    with engine_errors("start the hosts"):
        run_in_parallel(lambda container: container.start(), containers)


def await_boot(container: Container) -> None:
    """Wait until systemd, sshd and the engine, if installed, run. Raises HostNotReady with the failed unit."""
    deadline = time.monotonic() + _BOOT_TIMEOUT_S
    while time.monotonic() < deadline:
        answer = _command_output(container, "timeout 60 systemctl is-system-running --wait")
        if answer in {"running", "degraded"}:
            break
        time.sleep(0.5)  # systemd or its bus is not up yet, or the wait timed out
    else:
        raise HostNotReady(
            f"{container.name} did not finish booting in {_BOOT_TIMEOUT_S} s (systemd: {answer or 'silent'})",
            hint=f"docker logs {container.name}; docker exec {container.name} systemctl list-jobs",
        )
    wanted = _command_output(container, "systemctl is-enabled ssh.service docker.service 2>/dev/null").split()
    units = ["ssh.service", "docker.service"][: len(wanted)]
    states = _command_output(container, "systemctl is-active " + " ".join(units)).split()
    failed = [unit for unit, unit_state in zip(units, states, strict=False) if unit_state != "active"]
    if failed:
        raise HostNotReady(
            f"{container.name}: {', '.join(failed)} did not start",
            hint=f"docker exec {container.name} journalctl -b -u {failed[0]} --no-pager",
        )


def run_in_parallel(work: Callable[[T], object], items: Sequence[T]) -> None:
    """Call `work` for all items in a few threads; when all have finished, raise the first failure."""
    with ThreadPoolExecutor(_WORKERS) as pool:
        for result in [pool.submit(work, item) for item in items]:
            result.result()


def _command_output(container: Container, command: str) -> str:
    try:
        output = container.exec_run(["sh", "-c", command]).output
    except (APIError, NotFound):
        return ""  # not running (yet)
    return output.decode(errors="replace").strip() if isinstance(output, bytes) else ""


def _endpoint(client: DockerClient, address: str, alias: str) -> Any:
    return EndpointConfig(client.api.api_version, ipv4_address=address, aliases=[alias])


def _host_files(plan: LabPlan, host: Host, state: LabState) -> bytes:
    key = state.host_key(host)
    public = state.key.with_suffix(".pub").read_bytes()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        _add(tar, "etc/ssh/ssh_host_ed25519_key", key.read_bytes(), mode=0o600)
        _add(tar, "etc/ssh/ssh_host_ed25519_key.pub", key.with_suffix(".pub").read_bytes())
        _add(tar, "root/.ssh/authorized_keys", public, mode=0o600)
        _add(tar, "home/ops/.ssh/authorized_keys", public, mode=0o600, owner=_OPS_UID)
        if plan.networks[0].kind == "mgmt":
            _add(tar, "etc/ddp-play-lab/slow-net", f"{host.addresses[0]} {_SLOW_RATE}\n".encode())
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644, owner: int = 0) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.uid, info.gid = len(content), mode, owner, owner
    tar.addfile(info, io.BytesIO(content))
