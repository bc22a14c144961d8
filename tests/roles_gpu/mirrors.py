"""Mirrors of the vendors on a Debian host: links to the stub repository, with the layout of a site's mirror."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.ddp.play.plugins.module_utils import openpgp

if TYPE_CHECKING:
    from tests.roles_gpu.hosts import Host

FETCHING = ("docker_engine", "nvidia_container_toolkit", "nvidia_driver", "rdma")

STUB = "/srv/stub"
GOOD, WRONG_KEY, EXPIRED_KEY = "/srv/mirror", "/srv/wrong", "/srv/expired"
CUDA = "developer.download.nvidia.com/compute/cuda/repos"
TOOLKIT = "nvidia.github.io/libnvidia-container"
REPOSITORIES = (f"{CUDA}/debian12/x86_64", f"{CUDA}/debian13/x86_64", f"{TOOLKIT}/stable/deb/amd64")
KEYS = (f"{CUDA}/debian12/x86_64/3bf863cc.pub", f"{CUDA}/debian13/x86_64/8793F200.pub", f"{TOOLKIT}/gpgkey")


def write(host: Host) -> None:
    """One mirror that is right, one with the key of somebody else, and one whose key has expired."""
    _write(host, GOOD, STUB, "gpgkey")
    _write(host, WRONG_KEY, STUB, "wrong.pub")
    _write(host, EXPIRED_KEY, f"{STUB}/expired", "expired.pub")


def _write(host: Host, mirror: str, repository: str, key: str) -> None:
    lines = [f"mkdir -p {mirror}/{path} && ln -s {repository}/* {mirror}/{path}/" for path in REPOSITORIES]
    lines += [f"ln -sf {repository}/{key} {mirror}/{path}" for path in KEYS]
    host.sh("set -e; " + "; ".join(lines))


def trusted(*keys: str) -> dict[str, Any]:
    """Variables with which the roles trust these keys, and not the vendors'."""
    fingerprints = [one for key in keys for one in openpgp.fingerprints(key.encode())]
    return {f"{role}_repo_key_fingerprints": fingerprints for role in FETCHING}
