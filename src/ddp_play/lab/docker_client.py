"""Client of the Docker engine, with the engine's errors as HostNotReady."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager
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
    return HostNotReady(
        f"no Docker engine answers at {engine_url()}: {why}",
        hint="start it (systemctl start docker) or install one (apt-get install docker.io)",
    )
