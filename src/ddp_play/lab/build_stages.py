"""Images that a build with several stages leaves without a name, and their removal."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from docker.errors import APIError
from requests.exceptions import RequestException

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from docker import DockerClient


@contextlib.contextmanager
def removed_stages(client: DockerClient) -> Iterator[list[str]]:
    """Takes the ids of a build's stages, and removes at the end those images that are new and have no name.

    An image that was there before, also as a cached step, is not this build's. What another image or a container
    needs is refused by the engine, and stays.
    """
    stages: list[str] = []
    before = set(client.api.images(quiet=True, all=True))
    try:
        yield stages
    finally:
        for image_id in reversed(stages):
            if image_id not in before:
                _remove_nameless(client, image_id)


def stage_of(event: Mapping[str, Any]) -> Iterable[str]:
    """Id of the stage that ended with this event of a build's stream; the engine says it apart from all output."""
    found = (event.get("aux") or {}).get("ID")
    return (str(found),) if found else ()


def _remove_nameless(client: DockerClient, image_id: str) -> None:
    with contextlib.suppress(APIError, RequestException):
        if not client.images.get(image_id).tags:
            client.images.remove(image_id)
