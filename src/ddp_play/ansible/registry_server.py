"""Registry server of an image reference, by the name under which docker stores credentials."""

from __future__ import annotations


def registry_of(image: str) -> str:
    """Registry server of an image reference, as docker's config.json names it."""
    first = image.split("/", 1)[0]
    is_server = "/" in image and ("." in first or ":" in first or first == "localhost")
    return first if is_server else "https://index.docker.io/v1/"
