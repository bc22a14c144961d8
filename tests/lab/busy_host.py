"""A lab host with a history: hardware (files), a Python environment, an export directory, and who works there."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.roles_gpu import fixture

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

HOST = "h3"
HARDWARE = "/opt/hardware"
ENVIRONMENT = "/opt/ddp-play/python"
EXPORT = "/srv/site"
# Variables of roles that look at the files instead of the machine; this kernel has no NFS server.
VARIABLES: dict[str, Any] = {
    "__nvidia_driver_sysfs": f"{HARDWARE}/sys",
    "__nvidia_driver_procfs": f"{HARDWARE}/proc",
    "nvidia_driver_torch_version": "",
    "__nvidia_container_toolkit_sysfs": f"{HARDWARE}/sys",
    "nvidia_container_toolkit_mode": "legacy",
    "__rdma_sysfs": f"{HARDWARE}/sys",
    "nfs_server_exports": [{"path": EXPORT, "clients": ["10.0.0.0/8"]}],
    "__nfs_server_kernel": True,
    "__nfs_server_to_install": [],
}
# Prints what the role wrote, as `exportfs -s` would.
EXPORTFS = "#!/bin/sh\\ncat /etc/exports.d/*.exports 2>/dev/null || true\\n"
PREPARE = (
    f"mkdir -p {ENVIRONMENT}/bin {EXPORT}; ln -sf /usr/bin/python3 {ENVIRONMENT}/bin/python; touch {EXPORT}/data;"
    f" chown -R ops:ops {EXPORT}; chmod 2770 {EXPORT}; echo 'import time; time.sleep(900)' > /srv/wait.py;"
    f" printf '{EXPORTFS}' > /usr/local/sbin/exportfs; chmod +x /usr/local/sbin/exportfs; touch /root/before; sleep 0.1"
)
CLEAN = f"rm -rf {HARDWARE} /opt/ddp-play {EXPORT} /srv/wait.py /usr/local/sbin/exportfs"


@contextmanager
def lived_in(lab: Lab, folder: Path) -> Iterator[Path]:
    """The host with a history; gives the inventory that puts it into the roles' groups."""
    fixture.write(folder / "hardware", fixture.Hardware(loaded="570.86.15", hcas=("mlx5_0",)))
    machine = f"ddp-play-{lab.name}-{HOST}"
    subprocess.run(["docker", "cp", str(folder / "hardware"), f"{machine}:{HARDWARE}"], check=True)
    groups = {name: {"hosts": {HOST: None}} for name in ("nfs_server", "python_env", "monitoring")}
    path = folder / "site.json"
    path.write_text(json.dumps({"all": {"children": groups}}))
    with at_work(lab, PREPARE, CLEAN):
        yield path


@contextmanager
def at_work(lab: Lab, start: str, stop: str) -> Iterator[None]:
    """What one command starts on the host lasts in here; the other ends it."""
    lab.on(HOST, start, user="root")
    try:
        yield
    finally:
        lab.on(HOST, stop, user="root")


def provision(
    lab: Lab, site: Path, *roles: str, verb: str = "provision", options: tuple[str, ...] = (), **variables: Any
) -> dict[str, dict[str, Any]]:
    """The cells of the host by role, after a verb on these roles."""
    words = ("-i", str(lab.inventory), "-i", str(site), "--limit", HOST, "--tags", ",".join(roles), "--json", *options)
    done = lab.play(verb, *words, "-e", json.dumps({**VARIABLES, **variables}), timeout_s=300)
    assert done.stdout, done.stderr
    return {cell["role"]: cell for cell in json.loads(done.stdout)["cells"]}
