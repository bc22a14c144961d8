"""Registry server of an image reference, as docker's config.json names it."""

from __future__ import annotations

import pytest

from ddp_play.ansible import registry_server


@pytest.mark.parametrize(
    ("image", "server"),
    [
        ("train", "https://index.docker.io/v1/"),
        ("team/train:2", "https://index.docker.io/v1/"),
        ("registry.example.com/team/train:2", "registry.example.com"),
        ("localhost/train", "localhost"),
        ("registry:5000/train", "registry:5000"),
    ],
)
def test_registries(image: str, server: str) -> None:
    assert registry_server.registry_of(image) == server
