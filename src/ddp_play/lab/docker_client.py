"""Client of the Docker engine, with the engine's errors as HostNotReady."""

from __future__ import annotations

import os
import shutil
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from ddp_play.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

_TIMEOUT_S = 180
_DEFAULT_SOCKET = "unix:///var/run/docker.sock"


def engine_url() -> str:
    """URL of the engine: DOCKER_HOST, or the default socket."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT_SOCKET


def connect(timeout_s: int = _TIMEOUT_S) -> DockerClient:
    """Client of a running engine. Raises HostNotReady with a hint."""
    if is_local():
        _check_socket_access(engine_url().removeprefix("unix://"))
    try:
        client = docker.from_env(timeout=timeout_s)
        client.ping()
    except (DockerException, RequestException) as error:
        raise _no_engine(str(error)) from None
    return client


def is_local() -> bool:
    """Whether the engine runs on this machine. Only then are its files and kernel settings readable."""
    return engine_url().startswith("unix:")


@contextmanager
def engine_errors(operation: str) -> Iterator[None]:
    """Turn errors of the engine into HostNotReady, with the `operation` and the engine's message."""
    try:
        yield
    except APIError as error:
        raise HostNotReady(f"the Docker engine refused to {operation}: {error.explanation or error}") from None
    except RequestException as error:
        raise HostNotReady(
            f"the Docker engine at {engine_url()} did not answer the request to {operation}: {error}",
            hint="docker info shows whether it runs",
        ) from None


def _check_socket_access(path: str) -> None:
    """Connect to the socket, because the SDK does not distinguish a missing permission from a missing engine."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
        except PermissionError:
            raise HostNotReady(
                f"the Docker engine at {engine_url()} refuses this user",
                hint='sudo usermod -aG docker "$USER", then log in again',
            ) from None
        except OSError as error:
            raise _no_engine(error.strerror or str(error)) from None


def _no_engine(why: str) -> HostNotReady:
    hint = start_hint() if is_local() else "start it on its machine, or correct DOCKER_HOST"
    return HostNotReady(f"no Docker engine answers at {engine_url()}: {why}", hint=hint)


def _has_init(root: Path) -> bool:
    try:
        return (root / "proc/1/comm").read_text().strip() == "init"
    except OSError:
        return False


def start_hint(root: Path = Path("/")) -> str:
    """How an engine is installed or started on this machine.

    By hand where process 1 is no init, as in most containers: Debian's /etc/init.d/docker needs a higher `ulimit` than
    they allow.
    """
    sudo = "" if os.geteuid() == 0 else "sudo "
    places = [os.environ.get("PATH", ""), *(str(root / name) for name in ("usr/local/sbin", "usr/sbin"))]
    is_installed = shutil.which("dockerd", path=os.pathsep.join(places)) is not None
    if (root / "run/systemd/system").is_dir():
        start = f"{sudo}systemctl start docker"
    elif _has_init(root):
        start = f"{sudo}service docker start"
    else:
        start = f"{sudo}sh -c 'dockerd >/var/log/dockerd.log 2>&1 &'"
    install = f"{sudo}apt-get install docker.io"
    return f"start it ({start}) or install one ({install})" if is_installed else f"install one ({install}; {start})"
